//! An input as a sequence of choices, and the rest of it as data.

/// Bytes that are consumed from the front; beyond the end there are zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next bytes.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let count = N.min(self.0.len());
        bytes[..count].copy_from_slice(self.0.split_at(count).0);
        self.0 = &self.0[count..];
        bytes
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// A number below `end`, of one byte.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    /// A size: small, or one of those that arithmetic overflows with.
    pub(crate) fn size(&mut self) -> usize {
        match self.byte() {
            255 => usize::MAX,
            254 => usize::MAX / 2 + 1,
            253 => 1 << 32,
            252 => u64::from_le_bytes(self.take()) as usize,
            small => small.into(),
        }
    }

    /// A float of four bytes.
    pub(crate) fn float(&mut self) -> f32 {
        f32::from_le_bytes(self.take())
    }

    /// The next `count` bytes, or as many as there are.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// One of these.
    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The next floats, `N` of them at most; a short input has fewer.
    pub(crate) fn floats<const N: usize>(&mut self, buffer: &mut [f32; N], count: usize) -> usize {
        let bytes = self.bytes(count.min(N) * 4).as_chunks::<4>().0;
        for (float, bytes) in buffer.iter_mut().zip(bytes) {
            *float = f32::from_le_bytes(*bytes);
        }
        bytes.len()
    }
}
