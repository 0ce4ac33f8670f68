//! The geometry of an HQQ weight, from its entries and the configuration.

use std::sync::Arc;

use super::entries::{Entry, READ};
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{Arrangement, Coding, Grid, Prepare, Prepared, ScaleType};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Order, Scales, Unit};

/// A weight whose entries are read while planning. Its parts are codes, scales, zeros, and the entries that are
/// present.
pub(super) struct State {
    pub codes: StoredTensor,
    pub scale: StoredTensor,
    pub zero: StoredTensor,
    /// The types of scales and zeros.
    pub types: [ScaleType; 2],
    /// The names of the entries that are present, in the order of [`READ`].
    pub entries: [Option<String>; READ.len()],
    pub config: Configured,
    pub coding: Coding,
}

/// The description of a weight in the configuration.
pub(super) struct Configured {
    /// `nbits`, `group_size` and `axis`, each with its place.
    pub numbers: [Option<(i64, String)>; 3],
}

/// The index of the first part that is an entry.
const FIRST_ENTRY: usize = 3;

/// How codes are packed: the bits of a field, the unit it is a field of, and the fields per unit.
struct Packing {
    bits: u8,
    unit: Unit,
    fields: u64,
    /// The bits of codes that are packed in this way.
    codes: &'static [i64],
}

fn packing(name: &str) -> Option<Packing> {
    let (bits, unit, fields, codes): (_, _, _, &[_]) = match name {
        "8bit_u8" => (8, Unit::Byte, 1, &[8, 6, 5]),
        "4bit_u8" => (4, Unit::Byte, 2, &[4]),
        "3bit_32" => (3, Unit::Word, 10, &[3]),
        "2bit_u8" => (2, Unit::Byte, 4, &[2]),
        "1bit_u8" => (1, Unit::Byte, 8, &[1]),
        _ => return None,
    };
    Some(Packing { bits, unit, fields, codes })
}

/// The library's default packing of codes of `bits` bits.
fn default_packing(bits: i64) -> &'static str {
    match bits {
        8 | 6 | 5 => "8bit_u8",
        4 => "4bit_u8",
        3 => "3bit_32",
        2 => "2bit_u8",
        1 => "1bit_u8",
        _ => "",
    }
}

impl State {
    fn fail(&self, what: impl AsRef<str>) -> AnamnesisError {
        AnamnesisError::parse(what.as_ref())
    }

    /// An entry, if it is present.
    fn entry<'a>(&'a self, name: &str, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Option<Entry<'a>>> {
        let Some(place) = READ.iter().position(|entry| *entry == name) else { return Ok(None) };
        let Some(name) = &self.entries[place] else { return Ok(None) };
        let before = self.entries[..place].iter().flatten().count();
        Ok(Some(Entry { name, bytes: read(FIRST_ENTRY + before)? }))
    }

    /// A number from an entry or the configuration; they must agree.
    fn number(&self, which: usize, name: &str, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<i64> {
        let stored = self.entry(name, read)?.map(|entry| entry.number()).transpose()?;
        match (stored, &self.config.numbers[which]) {
            (Some(stored), Some((configured, place))) if stored != *configured => {
                Err(self.fail(format!("its {name} is {stored}, {place} says {configured}")))
            }
            (Some(number), _) => Ok(number),
            (None, Some((number, _))) => Ok(*number),
            (None, None) => Err(self.fail(format!("neither an entry nor the configuration has its {name}"))),
        }
    }

    /// Refuses a weight whose flags describe a storage that is not decoded.
    fn refuse_flags(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<()> {
        let refused = [
            ("quant_scale", true, "its scales are quantised"),
            ("quant_zero", true, "its zeros are quantised"),
            ("offload_meta", true, "its scales are stored to be loaded on demand"),
            ("channel_wise", false, "it has one scale and no groups"),
        ];
        for (name, value, what) in refused {
            if let Some(entry) = self.entry(name, read)?
                && entry.flag()? == value
            {
                let detail = format!("{what}, as {} says, which is not decoded", quoted(entry.name));
                return Err(AnamnesisError::unsupported("HQQ", detail));
            }
        }
        Ok(())
    }
}

impl Prepare for State {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        self.refuse_flags(read)?;
        let shape = self.entry("shape", read)?.map(|entry| entry.sizes()).transpose()?;
        let shape =
            shape.filter(|shape| shape.len() == 2).ok_or_else(|| self.fail("no entry has its two dimensions"))?;
        let bits = self.number(0, "nbits", read)?;
        let group_size = self.number(1, "group_size", read)?;
        let axis = self.number(2, "axis", read)?;
        let name = match self.entry("packing", read)? {
            Some(entry) => entry.text()?.to_owned(),
            None => default_packing(bits).to_owned(),
        };
        let packing = packing(&name).filter(|packing| packing.codes.contains(&bits)).ok_or_else(|| {
            AnamnesisError::unsupported("HQQ", format!("it has codes of {bits} bits packed as {name:?}"))
        })?;

        let total = crate::catalog::dtype::elements(&shape).unwrap_or(0);
        let group = u64::try_from(group_size).ok().filter(|&group| group > 0 && total.is_multiple_of(group));
        let group = group
            .filter(|_| total > 0)
            .ok_or_else(|| self.fail(format!("groups of {group_size} do not divide a weight of shape {shape:?}")))?;
        let groups = total / group;
        let (rows, cols, scales) = match axis {
            0 => (group, groups, [1, groups]),
            1 => (groups, group, [groups, 1]),
            _ => return Err(self.fail(format!("its axis is {axis}; 0 and 1 are known"))),
        };
        self.check_codes(&packing, rows, cols, read)?;
        for part in [&self.scale, &self.zero] {
            if part.shape.len() != 2 || part.shape.iter().zip(scales).any(|(&found, needed)| found as u64 != needed) {
                let (name, found) = (quoted(&part.name), &part.shape);
                return Err(self.fail(format!("{name} has shape {found:?}; {scales:?} is needed")));
            }
        }

        let grid = match axis {
            0 => Grid::new(rows, cols, rows, 1, Arrangement::Block(rows, 1)),
            _ => Grid::new(rows, cols, 1, cols, Arrangement::Row),
        };
        let stored = rows.div_ceil(packing.fields);
        let layout = match packing.bits {
            8 => Layout::bytes(8, cols),
            bits => Layout::Planes { bits, unit: packing.unit, rows: stored, order: Order::HighestFirst },
        };
        let [scale, zero] = self.types;
        let along = if axis == 1 { "rows" } else { "columns" };
        let decoder = Grouped {
            layout,
            meaning: Meaning::Unsigned,
            grid,
            scales: Scales { kind: scale, global: None },
            offsets: Offsets::Stored { kind: zero, plus: 0 },
            is_indexed: false,
            arithmetic: Arithmetic::default(),
            description: format!("HQQ {bits}-bit, groups of {group} along {along}"),
        };
        let coding = Coding { bits: u8::try_from(bits).ok(), group_size: Some(group), ..self.coding.clone() };
        Ok(Prepared { shape, decoder: Arc::new(decoder), coding: Some(coding) })
    }

    fn describe(&self) -> String {
        "HQQ".to_owned()
    }
}

impl State {
    /// Refuses codes whose type or shape does not fit a matrix of `rows` by `cols`.
    fn check_codes(
        &self,
        packing: &Packing,
        rows: u64,
        cols: u64,
        read: &dyn Fn(usize) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let is_float = self.entry("view_as_float", read)?.map(|entry| entry.flag()).transpose()? == Some(true);
        let (dtype, bytes) = match packing.unit {
            Unit::Byte => (Dtype::U8, 1),
            Unit::Word => (Dtype::I32, 4),
        };
        let is_type = match is_float {
            true => matches!(self.codes.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16),
            false => self.codes.dtype == dtype,
        };
        if !is_type {
            let needed = if is_float { "a float type" } else { dtype.name() };
            return Err(self.fail(format!("it is {}; {needed} is needed", self.codes.dtype)));
        }
        // Only three-bit codes are padded to whole words.
        let stored = rows.div_ceil(packing.fields);
        let is_whole = packing.bits == 3 || rows.is_multiple_of(packing.fields);
        let fits = match self.codes.shape[..] {
            [found, width] => {
                let width = (width as u64).checked_mul(self.codes.dtype.byte_size() as u64);
                found as u64 == stored && width == cols.checked_mul(bytes)
            }
            _ => false,
        };
        match fits && is_whole {
            true => Ok(()),
            false => {
                let (bits, found) = (packing.bits, &self.codes.shape);
                Err(self.fail(format!("its shape {found:?} does not hold {rows} by {cols} codes of {bits} bits")))
            }
        }
    }
}
