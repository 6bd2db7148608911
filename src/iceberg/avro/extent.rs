//! How far a record reaches, found without building it.

use super::shape::Shape;
use super::shape::Shapes;
use crate::iceberg::Trouble;

/// How deep values may lie in each other.
const DEPTH_MAX: usize = 64;

/// Reads along bytes, and never past them.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How many values there may still be.
    values_left: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8], values_max: usize) -> Self {
        Self { bytes, at: 0, values_left: values_max }
    }

    /// How many bytes were passed.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// How many values there may still be.
    pub(super) fn values_left(&self) -> usize {
        self.values_left
    }

    /// Whether there is nothing more.
    pub(super) fn is_at_the_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Passes one value.
    pub(super) fn pass(&mut self, shape: &Shape, shapes: &Shapes) -> Result<(), Trouble> {
        self.value(shape, shapes, 0)
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Trouble> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| Trouble::invalid("an Avro file ends in the middle"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// The next number.
    pub(super) fn number(&mut self) -> Result<i64, Trouble> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = u64::from(self.take(1)?[0]);
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                break;
            }
            value |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Trouble::invalid("an Avro file has a number that is too long"))
    }

    /// The next length.
    pub(super) fn length(&mut self) -> Result<usize, Trouble> {
        let length = self.number()?;
        usize::try_from(length).map_err(|_| Trouble::invalid("an Avro file has a negative length"))
    }

    /// How many items a block of an array or map has; zero ends it.
    pub(super) fn block(&mut self) -> Result<usize, Trouble> {
        let count = self.number()?;
        if count < 0 {
            self.number()?;
        }
        let count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        // What takes room for each item is bounded by it, even where an item is no byte.
        if count > self.values_left {
            return Err(Trouble::invalid("an Avro record has too many values"));
        }
        Ok(count)
    }

    fn value(&mut self, shape: &Shape, shapes: &Shapes, depth: usize) -> Result<(), Trouble> {
        if depth > DEPTH_MAX {
            return Err(Trouble::invalid("an Avro record is too deep"));
        }
        let left = self.values_left.checked_sub(1);
        self.values_left =
            left.ok_or_else(|| Trouble::invalid("an Avro record has too many values"))?;
        match shape {
            Shape::Fixed(size) => self.take(*size).map(drop),
            Shape::Number => self.number().map(drop),
            Shape::Sized => {
                let length = self.length()?;
                self.take(length).map(drop)
            }
            Shape::Array(item) => loop {
                let count = self.block()?;
                if count == 0 {
                    return Ok(());
                }
                for _ in 0..count {
                    self.value(item, shapes, depth + 1)?;
                }
            },
            Shape::Map(value) => loop {
                let count = self.block()?;
                if count == 0 {
                    return Ok(());
                }
                for _ in 0..count {
                    self.value(&Shape::Sized, shapes, depth + 1)?;
                    self.value(value, shapes, depth + 1)?;
                }
            },
            Shape::Union(variants) => {
                let variant = usize::try_from(self.number()?).ok();
                let variant = variant.and_then(|variant| variants.get(variant));
                let variant = variant
                    .ok_or_else(|| Trouble::invalid("an Avro record has an unknown variant"))?;
                self.value(variant, shapes, depth + 1)
            }
            Shape::Record(number) => shapes.records[*number]
                .iter()
                .try_for_each(|field| self.value(field, shapes, depth + 1)),
        }
    }
}
