//! anamnesis.
