//! The fixed text by whose ids vocabularies are identified: white space, digits, scripts, quotes and contractions.

/// The text, as in the converter of llama.cpp.
pub(super) const TEXT: &str = concat!(
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\u{200d}🌫\u{fe0f} (multiple ",
    "emojis concatenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 ",
    "កាន់តែពិសេសអាច😁 ?我想在apple工作1314151天～ ------======= нещо на Български ",
    "''''''```````\"\"\"\"......!!!!!!?????? I've been 'told he's there, 'RE you sure? 'M not ",
    "sure I'll make it, 'D you like some tea? We'Ve a'lL",
);
