//! Planted defects: the rules, bent where the harness orders it.
//!
//! A decorator around `protocol::rules`; nothing else in the node knows that defects exist, except
//! that it says so wherever it speaks of itself.

use std::sync::Arc;

use crate::protocol::control::Defect;
use crate::protocol::rules::Rules;
use crate::protocol::rules::SharedRules;
use crate::protocol::rules::Sound;

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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each rule answers, in one line.
    fn answers(rules: &dyn Rules) -> (usize, [bool; 5]) {
        let flags = [
            rules.verifies_frames(),
            rules.heals_by_contents(),
            rules.admits_the_unknown(),
            rules.replaces_null_versions(),
            rules.syncs_directories(),
        ];
        (rules.write_quorum(3), flags)
    }

    #[test]
    fn every_defect_bends_exactly_one_rule() {
        assert_eq!(answers(&*rules(&[])), (3, [true; 5]));
        for defect in Defect::ALL {
            let (quorum, flags) = answers(&*rules(&[*defect]));
            let bent = usize::from(quorum != 3) + flags.iter().filter(|flag| !**flag).count();
            assert_eq!(bent, 1, "{defect:?}");
        }
    }
}
