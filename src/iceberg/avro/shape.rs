//! How the values of an Avro schema lie in bytes, without their meaning.
//!
//! What is measured here must be what the crate decodes. Where a name could be read in two ways (two types that differ in
//! their namespaces) the schema is refused: Iceberg writes none like that.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::iceberg::Trouble;

/// The most named types, and the most members of them together.
const PARTS_MAX: usize = 100_000;

/// How one value lies.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// So many bytes, perhaps none.
    Fixed(usize),
    /// A number of variable length.
    Number,
    /// A length, and so many bytes.
    Sized,
    /// Blocks of items.
    Array(Box<Shape>),
    /// Blocks of pairs.
    Map(Box<Shape>),
    /// A number, and the value that it selects.
    Union(Vec<Shape>),
    /// The record of that number.
    Record(usize),
}

/// A schema.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// What a file holds.
    pub(super) top: Option<Shape>,
    /// The records, each its fields.
    pub(super) records: Vec<Vec<Shape>>,
    named: BTreeMap<String, Shape>,
    parts: usize,
}

impl Shapes {
    /// Reads a schema. Of a file that holds rows it is a record.
    pub(super) fn parse(schema: &Value) -> Result<Self, Trouble> {
        let mut shapes = Self::default();
        let top = shapes.shape(schema)?;
        if !matches!(top, Shape::Record(_)) {
            return Err(Trouble::invalid("an Avro file holds no records"));
        }
        shapes.top = Some(top);
        Ok(shapes)
    }

    fn shape(&mut self, schema: &Value) -> Result<Shape, Trouble> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(Trouble::invalid("an Avro schema has too many parts"));
        }
        match schema {
            Value::String(name) => self.known(name),
            Value::Array(variants) => {
                let variants = variants.iter().map(|variant| self.shape(variant));
                Ok(Shape::Union(variants.collect::<Result<_, _>>()?))
            }
            Value::Object(_) => self.complex(schema),
            _ => Err(Trouble::invalid("an Avro schema is none")),
        }
    }

    fn known(&self, name: &str) -> Result<Shape, Trouble> {
        Ok(match name {
            "null" => Shape::Fixed(0),
            "boolean" => Shape::Fixed(1),
            "float" => Shape::Fixed(4),
            "double" => Shape::Fixed(8),
            "int" | "long" => Shape::Number,
            "bytes" | "string" => Shape::Sized,
            name => {
                let named = self.named.get(last_name(name)).cloned();
                named.ok_or_else(|| Trouble::invalid("an Avro schema names an unknown type"))?
            }
        })
    }

    fn complex(&mut self, schema: &Value) -> Result<Shape, Trouble> {
        // A number of any length in bytes of its own: nothing of Iceberg is.
        if schema["logicalType"] == "big-decimal" {
            return Err(Trouble::invalid("an Avro schema has a type that Iceberg has not"));
        }
        let Some(kind) = schema["type"].as_str() else {
            return self.shape(&schema["type"]);
        };
        match kind {
            "array" => Ok(Shape::Array(Box::new(self.shape(&schema["items"])?))),
            "map" => Ok(Shape::Map(Box::new(self.shape(&schema["values"])?))),
            "enum" => self.name(schema, Shape::Number),
            "fixed" => {
                let size = schema["size"].as_u64().and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or_else(|| Trouble::invalid("a fixed Avro type has no size"))?;
                self.name(schema, Shape::Fixed(size))
            }
            "record" => {
                let number = self.records.len();
                self.records.push(Vec::new());
                self.name(schema, Shape::Record(number))?;
                let fields = schema["fields"].as_array();
                let fields =
                    fields.ok_or_else(|| Trouble::invalid("an Avro record has no fields"))?;
                let fields = fields.iter().map(|field| self.shape(&field["type"]));
                self.records[number] = fields.collect::<Result<_, _>>()?;
                Ok(Shape::Record(number))
            }
            name => self.known(name),
        }
    }

    fn name(&mut self, schema: &Value, shape: Shape) -> Result<Shape, Trouble> {
        let name = schema["name"].as_str();
        let name = name.ok_or_else(|| Trouble::invalid("an Avro type has no name"))?;
        if self.named.insert(last_name(name).to_owned(), shape.clone()).is_some() {
            return Err(Trouble::invalid("an Avro schema has two types of one name"));
        }
        Ok(shape)
    }
}

/// A name without its namespace.
fn last_name(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, name)| name)
}
