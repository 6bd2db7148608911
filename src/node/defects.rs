//! Planted defects: the rules, bent where the harness orders it.
//!
//! A decorator around `protocol::rules`; nothing else in the node knows that defects exist, except
//! that it says so wherever it speaks of itself.

use std::sync::Arc;

use crate::protocol::control::Defect;
use crate::protocol::rules::Rules;
use crate::protocol::rules::SharedRules;
use crate::protocol::rules::Sound;
use crate::value::VersionId;

const SECOND_NS: i64 = 1_000_000_000;

/// The rules with these defects; [`Sound`] without any.
pub fn rules(defects: &[Defect]) -> SharedRules {
    if defects.is_empty() {
        return Arc::new(Sound);
    }
    Arc::new(Bent { defects: defects.to_vec(), sound: Sound })
}

struct Bent {
    defects: Vec<Defect>,
    sound: Sound,
}

impl Bent {
    fn has(&self, defect: Defect) -> bool {
        self.defects.contains(&defect)
    }
}

impl Rules for Bent {
    fn write_quorum(&self, asked: usize) -> usize {
        if self.has(Defect::AcknowledgesBeforeQuorum) {
            return asked.min(1);
        }
        self.sound.write_quorum(asked)
    }

    fn verifies_frames(&self) -> bool {
        !self.has(Defect::ReturnsShardsUnchecked) && self.sound.verifies_frames()
    }

    fn heals_by_contents(&self) -> bool {
        !self.has(Defect::HealsWithoutChecking) && self.sound.heals_by_contents()
    }

    fn admits_the_unknown(&self) -> bool {
        !self.has(Defect::RefusesTheUnknown) && self.sound.admits_the_unknown()
    }

    fn replaces_null_versions(&self) -> bool {
        !self.has(Defect::KeepsTwoNullVersions) && self.sound.replaces_null_versions()
    }

    fn syncs_directories(&self) -> bool {
        !self.has(Defect::SkipsDirectorySync) && self.sound.syncs_directories()
    }

    fn writes_contents_first(&self) -> bool {
        !self.has(Defect::NamesBeforeContents) && self.sound.writes_contents_first()
    }

    fn heals_markers(&self) -> bool {
        !self.has(Defect::PurgesPartialMarkers) && self.sound.heals_markers()
    }

    fn moment_ns(&self, now_ns: i64, newest_ns: i64, since_ns: i64) -> i64 {
        if self.has(Defect::StampsWholeSeconds) {
            // Not before its bucket: it would count as one of an earlier bucket.
            return (now_ns - now_ns.rem_euclid(SECOND_NS)).max(since_ns.saturating_add(1));
        }
        self.sound.moment_ns(now_ns, newest_ns, since_ns)
    }

    fn walks_below_keys(&self) -> bool {
        !self.has(Defect::WalksPastKeysBelowKeys) && self.sound.walks_below_keys()
    }

    fn discards_staging(&self) -> bool {
        !self.has(Defect::KeepsDiscardedStaging) && self.sound.discards_staging()
    }

    fn brings(&self, version: VersionId) -> bool {
        let passes_over = self.has(Defect::PassesOverNullVersions) && version.is_null();
        !passes_over && self.sound.brings(version)
    }

    fn heeds_fences(&self) -> bool {
        !self.has(Defect::ForgetsFences) && self.sound.heeds_fences()
    }

    fn binds_everybody(&self) -> bool {
        !self.has(Defect::LetsRootPass) && self.sound.binds_everybody()
    }

    fn drains_writers(&self) -> bool {
        !self.has(Defect::ForgetsTheDrain) && self.sound.drains_writers()
    }

    fn keeps_snapshot_version(&self) -> bool {
        !self.has(Defect::DowngradesSnapshots) && self.sound.keeps_snapshot_version()
    }

    fn heeds_strong_progress(&self) -> bool {
        !self.has(Defect::ReleasesAdvancedFences) && self.sound.heeds_strong_progress()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::replacement;

    /// What each rule answers, in one line.
    fn answers(rules: &dyn Rules) -> (usize, i64, [bool; 15]) {
        let flags = [
            rules.verifies_frames(),
            rules.heals_by_contents(),
            rules.admits_the_unknown(),
            rules.replaces_null_versions(),
            rules.syncs_directories(),
            rules.writes_contents_first(),
            rules.heals_markers(),
            rules.walks_below_keys(),
            rules.discards_staging(),
            rules.brings(VersionId::NULL),
            rules.heeds_fences(),
            rules.binds_everybody(),
            rules.drains_writers(),
            rules.keeps_snapshot_version(),
            rules.heeds_strong_progress(),
        ];
        (rules.write_quorum(3), rules.moment_ns(7 * SECOND_NS, 9 * SECOND_NS, 0), flags)
    }

    #[test]
    fn every_defect_bends_exactly_one_rule() {
        let after_the_newest = 9 * SECOND_NS + 1;
        assert_eq!(answers(&*rules(&[])), (3, after_the_newest, [true; 15]));
        // Those of replacements bend no rule but the course of a generation.
        let of_rules = Defect::ALL.iter().filter(|it| !replacement::bends_course(**it));
        for defect in of_rules {
            let (quorum, moment_ns, flags) = answers(&*rules(&[*defect]));
            let bent = usize::from(quorum != 3)
                + usize::from(moment_ns != after_the_newest)
                + flags.iter().filter(|flag| !**flag).count();
            assert_eq!(bent, 1, "{defect:?}");
        }
    }

    #[test]
    fn whole_seconds_make_versions_of_one_moment_and_none_older_than_its_bucket() {
        let rules = rules(&[Defect::StampsWholeSeconds]);
        let first = rules.moment_ns(7 * SECOND_NS + 5, 0, 0);
        assert_eq!(rules.moment_ns(7 * SECOND_NS + 9, first, 0), first);
        let since_ns = 7 * SECOND_NS + 1;
        assert!(rules.moment_ns(7 * SECOND_NS + 5, 0, since_ns) > since_ns);
    }
}
