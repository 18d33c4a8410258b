//! What may stand in a DBC file, statement by statement.
//!
//! Source: Vector, "DBC File Format Documentation", version 1.0.5, with what published files add to it.
//! Statements that say nothing about messages and signals are skipped to their end.

use super::token::{ReadingStop, Token, Tokens};

/// A statement about messages and signals.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    Message(MessagePart<'a>),
    /// `BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN";`
    Definition {
        attribute: Token<'a>,
        names: Vec<Token<'a>>,
    },
    /// `BA_DEF_DEF_ "GenMsgCycleTime" 100;`
    Default {
        attribute: Token<'a>,
        value: Token<'a>,
    },
    /// `BA_ "GenMsgCycleTime" BO_ 291 10;`
    Attribute {
        attribute: Token<'a>,
        of: AttributeOwner<'a>,
        value: Token<'a>,
    },
    /// `VAL_ 291 Gear 0 "neutral" 1 "first" ;`
    ValueNames {
        message: Token<'a>,
        signal: Token<'a>,
        names: Vec<(Token<'a>, Token<'a>)>,
    },
    /// `SIG_VALTYPE_ 291 Torque : 1;`
    ValueType {
        at: usize,
        message: Token<'a>,
        signal: Token<'a>,
        value_type: Token<'a>,
    },
    /// `SG_MUL_VAL_ 291 Torque Page 0-3, 7-7;`
    Selection {
        message: Token<'a>,
        signal: Token<'a>,
        selector: Token<'a>,
        ranges: Vec<(Token<'a>, Token<'a>)>,
    },
    /// What says nothing about them.
    Other,
}

/// What an attribute belongs to.
#[derive(Debug, PartialEq)]
pub(super) enum AttributeOwner<'a> {
    File,
    Message(Token<'a>),
    Signal(Token<'a>, Token<'a>),
    /// A node or an environment variable.
    Other,
}

/// `BO_ 291 Motor: 8 Engine` and its signals.
#[derive(Debug, PartialEq)]
pub(super) struct MessagePart<'a> {
    pub(super) at: usize,
    pub(super) number: Token<'a>,
    pub(super) name: Token<'a>,
    pub(super) length: Token<'a>,
    pub(super) sender: Token<'a>,
    pub(super) signals: Vec<SignalPart<'a>>,
}

/// `SG_ Speed m0 : 7|16@0+ (0.25,0) [0|16000] "rpm" Dashboard,Gateway`
#[derive(Debug, PartialEq)]
pub(super) struct SignalPart<'a> {
    pub(super) at: usize,
    pub(super) name: Token<'a>,
    pub(super) indicator: Option<Token<'a>>,
    pub(super) start_bit: Token<'a>,
    /// One bit if it is absent.
    pub(super) bits: Option<Token<'a>>,
    pub(super) is_big_endian: bool,
    pub(super) is_signed: bool,
    pub(super) scale: Token<'a>,
    pub(super) offset: Token<'a>,
    pub(super) min: Token<'a>,
    pub(super) max: Token<'a>,
    pub(super) unit: Token<'a>,
    pub(super) receivers: Vec<Token<'a>>,
}

/// Reads the next statement; `None` at the end.
pub(super) fn next<'a>(tokens: &mut Tokens<'a>) -> Option<Result<Part<'a>, ReadingStop>> {
    tokens.lines_are_blanks(false);
    tokens.skip_lines()?;
    Some(tokens.word().and_then(|keyword| {
        // The end of a line ends these; all others end with a semicolon.
        let ends_with_line = matches!(keyword.text, "VERSION" | "BS_" | "BO_");
        tokens.lines_are_blanks(!ends_with_line);
        statement(keyword, tokens)
    }))
}

fn statement<'a>(keyword: Token<'a>, tokens: &mut Tokens<'a>) -> Result<Part<'a>, ReadingStop> {
    match keyword.text {
        "BO_" => return message(keyword.at, tokens).map(Part::Message),
        "BA_DEF_" => return definition(tokens),
        "BA_DEF_DEF_" => {
            let (attribute, value) = (tokens.quoted()?, tokens.value()?);
            end(tokens)?;
            return Ok(Part::Default { attribute, value });
        }
        "BA_" => return attribute(tokens),
        "VAL_" => return value_names(tokens),
        "SIG_VALTYPE_" => return value_type(keyword.at, tokens),
        "SG_MUL_VAL_" => return selection(tokens),
        "VERSION" => {
            tokens.quoted()?;
        }
        "CM_" => comment(tokens)?,
        "BS_" => bit_timing(tokens)?,
        // Their names follow, in as many lines as they like, and nothing else: indented lines after
        // them may be signals whose message is missing.
        "NS_" | "BU_" => {
            tokens.mark(":", &[":"])?;
            while tokens.peek().is_some() {
                tokens.word()?;
            }
        }
        "VAL_TABLE_" | "SIG_GROUP_" | "BO_TX_BU_" | "EV_" | "ENVVAR_DATA_" | "BA_DEF_REL_"
        | "BA_REL_" | "BA_DEF_DEF_REL_" => tokens.skip_to_semicolon()?,
        _ => return Err(ReadingStop { at: keyword.at, expected: &[] }),
    }
    Ok(Part::Other)
}

fn end(tokens: &mut Tokens<'_>) -> Result<(), ReadingStop> {
    tokens.mark(";", &[";"])
}

fn message<'a>(at: usize, tokens: &mut Tokens<'a>) -> Result<MessagePart<'a>, ReadingStop> {
    let (number, name) = (tokens.digits()?, tokens.word()?);
    tokens.mark(":", &[":"])?;
    let (length, sender) = (tokens.integer()?, tokens.word()?);
    let mut signals = Vec::new();
    // Blank lines and remarks may stand between signals.
    let mut ahead = tokens.clone();
    while ahead.skip_lines() == Some('S')
        && let Ok(keyword) = ahead.word()
        && keyword.text == "SG_"
    {
        signals.push(signal(keyword.at, &mut ahead)?);
        *tokens = ahead.clone();
    }
    Ok(MessagePart { at, number, name, length, sender, signals })
}

fn signal<'a>(at: usize, tokens: &mut Tokens<'a>) -> Result<SignalPart<'a>, ReadingStop> {
    let name = tokens.word()?;
    let indicator = match tokens.peek() {
        Some('m' | 'M') => Some(indicator(tokens)?),
        _ => None,
    };
    tokens.mark(":", &[":"])?;
    let start_bit = tokens.integer()?;
    let bits = if tokens.has("|") { Some(tokens.integer()?) } else { None };
    tokens.mark("@", if bits.is_some() { &["@"] } else { &["|", "@"] })?;
    let is_big_endian = tokens.has("0");
    if !is_big_endian {
        tokens.mark("1", &["0", "1"])?;
    }
    let is_signed = tokens.has("-");
    if !is_signed {
        tokens.mark("+", &["+", "-"])?;
    }
    tokens.mark("(", &["("])?;
    let scale = tokens.number()?;
    tokens.mark(",", &[","])?;
    let offset = tokens.number()?;
    tokens.mark(")", &[")"])?;
    tokens.mark("[", &["["])?;
    let min = tokens.number()?;
    tokens.mark("|", &["|"])?;
    let max = tokens.number()?;
    tokens.mark("]", &["]"])?;
    let unit = tokens.quoted()?;
    let mut receivers = vec![tokens.word()?];
    while tokens.has(",") {
        receivers.push(tokens.word()?);
    }
    Ok(SignalPart {
        at,
        name,
        indicator,
        start_bit,
        bits,
        is_big_endian,
        is_signed,
        scale,
        offset,
        min,
        max,
        unit,
        receivers,
    })
}

/// `M`, `m7` or `m7M`.
fn indicator<'a>(tokens: &mut Tokens<'a>) -> Result<Token<'a>, ReadingStop> {
    let before = tokens.clone();
    let word = tokens.word()?;
    let number = word.text.strip_prefix('m').map(|rest| rest.strip_suffix('M').unwrap_or(rest));
    match number {
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => Ok(word),
        None if word.text == "M" => Ok(word),
        _ => before.stop(&[":"]),
    }
}

fn definition<'a>(tokens: &mut Tokens<'a>) -> Result<Part<'a>, ReadingStop> {
    if tokens.peek() != Some('"') {
        tokens.word()?; // what has the attribute: BU_, BO_, SG_ or EV_
    }
    let attribute = tokens.quoted()?;
    let kind = tokens.word()?;
    let mut names = Vec::new();
    if kind.text == "ENUM" {
        names.push(tokens.quoted()?);
        while tokens.has(",") {
            names.push(tokens.quoted()?);
        }
    } else {
        while tokens.peek().is_some_and(|c| c != ';') {
            tokens.number()?; // the least and the greatest value
        }
    }
    end(tokens)?;
    Ok(Part::Definition { attribute, names })
}

fn attribute<'a>(tokens: &mut Tokens<'a>) -> Result<Part<'a>, ReadingStop> {
    let attribute = tokens.quoted()?;
    let of = match tokens.peek() {
        Some(c) if c.is_ascii_alphabetic() => owner(tokens)?,
        _ => AttributeOwner::File,
    };
    let value = tokens.value()?;
    end(tokens)?;
    Ok(Part::Attribute { attribute, of, value })
}

fn owner<'a>(tokens: &mut Tokens<'a>) -> Result<AttributeOwner<'a>, ReadingStop> {
    let before = tokens.clone();
    match tokens.word()?.text {
        "BO_" => Ok(AttributeOwner::Message(tokens.digits()?)),
        "SG_" => Ok(AttributeOwner::Signal(tokens.digits()?, tokens.word()?)),
        "BU_" | "EV_" => tokens.word().map(|_| AttributeOwner::Other),
        _ => before.stop(&[]),
    }
}

fn value_names<'a>(tokens: &mut Tokens<'a>) -> Result<Part<'a>, ReadingStop> {
    let first = tokens.word()?;
    // The values of an environment variable have no message before its name.
    let of_signal = first.text.bytes().all(|byte| byte.is_ascii_digit());
    let signal = if of_signal { Some(tokens.word()?) } else { None };
    let mut names = Vec::new();
    while tokens.peek().is_some_and(|c| c.is_ascii_digit() || "+-".contains(c)) {
        names.push((tokens.integer()?, tokens.quoted()?));
    }
    if !tokens.has(";") && tokens.peek().is_some_and(|c| !c.is_ascii_alphabetic()) {
        return tokens.stop(&[";"]);
    }
    Ok(match signal {
        Some(signal) => Part::ValueNames { message: first, signal, names },
        None => Part::Other,
    })
}

fn value_type<'a>(at: usize, tokens: &mut Tokens<'a>) -> Result<Part<'a>, ReadingStop> {
    let (message, signal) = (tokens.digits()?, tokens.word()?);
    tokens.mark(":", &[":"])?;
    let value_type = tokens.digits()?;
    end(tokens)?;
    Ok(Part::ValueType { at, message, signal, value_type })
}

fn selection<'a>(tokens: &mut Tokens<'a>) -> Result<Part<'a>, ReadingStop> {
    let (message, signal, selector) = (tokens.digits()?, tokens.word()?, tokens.word()?);
    let mut ranges = Vec::new();
    loop {
        let first = tokens.digits()?;
        tokens.mark("-", &["-"])?;
        ranges.push((first, tokens.digits()?));
        if !tokens.has(",") {
            break;
        }
    }
    end(tokens)?;
    Ok(Part::Selection { message, signal, selector, ranges })
}

/// `CM_ SG_ 291 Speed "of the motor";`: what it is about may be absent, and so may the semicolon.
fn comment(tokens: &mut Tokens<'_>) -> Result<(), ReadingStop> {
    while tokens.peek().is_some_and(|c| c == '_' || c.is_ascii_alphanumeric()) {
        tokens.word()?;
    }
    tokens.quoted()?;
    tokens.has(";");
    Ok(())
}

/// `BS_: 500:12,34`, mostly without the numbers.
fn bit_timing(tokens: &mut Tokens<'_>) -> Result<(), ReadingStop> {
    tokens.mark(":", &[":"])?;
    if tokens.peek().is_some_and(|c| c.is_ascii_digit()) {
        tokens.digits()?;
        tokens.mark(":", &[":"])?;
        tokens.digits()?;
        tokens.mark(",", &[","])?;
        tokens.digits()?;
    }
    Ok(())
}
