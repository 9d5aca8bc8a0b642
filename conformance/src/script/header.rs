//! The head of a script: what it is called and about, what its QPs are like, and the values it is run with.

use super::number::parse_number;
use super::step::{Step, parse_access};
use super::words::{Reason, ScriptError, Words};
use crate::case::Case;
use crate::fabric::{Envelope, IpVersion};
use crate::lab::Plan;
use crate::needs::Need;
use ferroce_core::{PathMtu, QpType};

/// A script with its values filled in.
#[derive(Clone, Debug)]
pub struct Script {
    /// The rules it is about.
    pub rules: Vec<String>,
    /// What it needs besides what follows from its steps.
    pub needs: Vec<Need>,
    /// The versions of IP that it runs over.
    pub versions: Vec<IpVersion>,
    /// Its QPs.
    pub(super) plans: Vec<Plan>,
    /// First PSN of the peer.
    pub(super) peer_psn: u32,
    /// Steps with their lines.
    pub(super) steps: Vec<(usize, Step)>,
}

/// Values of a script's names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Variant(Vec<(String, String)>);

impl Variant {
    /// The text with every `$name` replaced by its value; longer names first, so that none is a part of another.
    fn apply(&self, line: &str) -> String {
        let mut pairs = self.0.clone();
        pairs.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        pairs.iter().fold(line.to_owned(), |line, (name, value)| line.replace(&format!("${name}"), value))
    }

    /// What distinguishes it in a case's name.
    fn suffix(&self) -> String {
        self.0.iter().take(1).map(|(name, value)| format!("/{name}-{value}")).collect()
    }
}

/// What a script is run with: one variant for each line that begins with `with`, or one without values.
pub(super) fn variants(name: &str, text: &str) -> Result<Vec<Variant>, ScriptError> {
    let mut variants = Vec::new();
    for (number, line) in lines(text) {
        let Some(values) = line.strip_prefix("with ") else { continue };
        let pairs = values.split_whitespace().map(|word| word.split_once('='));
        let pairs: Option<Vec<_>> =
            pairs.map(|pair| pair.map(|(name, value)| (name.into(), value.into()))).collect();
        let reason = "write name=value";
        let pairs = pairs.ok_or_else(|| error(name, number, reason.into()))?;
        variants.push(Variant(pairs));
    }
    Ok(if variants.is_empty() { vec![Variant::default()] } else { variants })
}

/// Lines with something in them, and their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines());
    let lines = lines.map(|(number, line)| (number, line.split('#').next().unwrap_or_default().trim()));
    lines.filter(|(_, line)| !line.is_empty())
}

fn error(name: &str, line: usize, reason: Reason) -> ScriptError {
    ScriptError { script: name.to_owned(), line, reason }
}

impl Script {
    /// Reads a script with the values of `variant`.
    ///
    /// # Errors
    /// The line that is wrong, and why.
    pub fn parse(name: &str, text: &str, variant: &Variant) -> Result<Script, ScriptError> {
        let mut script = Script {
            rules: Vec::new(),
            needs: Vec::new(),
            versions: IpVersion::ALL.to_vec(),
            plans: Vec::new(),
            peer_psn: PEER_PSN,
            steps: Vec::new(),
        };
        for (number, line) in lines(text) {
            let line = variant.apply(line);
            script.line(number, &line).map_err(|reason| error(name, number, reason))?;
        }
        let last = text.lines().count();
        match () {
            () if script.plans.is_empty() => Err(error(name, last, "no line begins with qp".into())),
            () if script.rules.is_empty() => Err(error(name, last, "no line begins with rule".into())),
            () => Ok(script),
        }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), Reason> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "with" => Ok(()),
            "rule" => {
                self.rules.push(rest.trim().to_owned());
                Ok(())
            }
            "needs" => {
                for word in rest.split_whitespace() {
                    let need = Need::ALL.iter().find(|need| need.name() == word);
                    self.needs.push(*need.ok_or_else(|| format!("{word} is nothing that can be needed"))?);
                }
                Ok(())
            }
            "over" => {
                let parse = |word| match word {
                    "ipv4" => Ok(IpVersion::V4),
                    "ipv6" => Ok(IpVersion::V6),
                    other => Err(format!("{other} is no version of IP")),
                };
                self.versions = rest.split_whitespace().map(parse).collect::<Result<_, _>>()?;
                Ok(())
            }
            "qp" => {
                let plan = self.parse_qp(rest)?;
                self.plans.push(plan);
                Ok(())
            }
            _ => {
                let plan = self.plans.first().ok_or("a line that begins with qp has to come first")?;
                self.steps.push((number, Step::parse(line, plan.qp_type.service())?));
                Ok(())
            }
        }
    }

    fn parse_qp(&mut self, text: &str) -> Result<Plan, Reason> {
        let mut words = Words::new(text);
        let qp_type = match words.next("a service")? {
            "rc" => QpType::Rc,
            "uc" => QpType::Uc,
            "ud" => QpType::Ud,
            other => return Err(format!("{other} is no service: rc, uc or ud")),
        };
        let default = Plan { mtu: PathMtu::Mtu256, psn: OWN_PSN, buffer_len: 8192, ..Plan::new(qp_type) };
        let mut plan = Plan {
            mtu: words.parsed("mtu", parse_mtu)?.unwrap_or(default.mtu),
            access: words.parsed("access", parse_access)?.unwrap_or(default.access),
            buffer_access: words.parsed("buffer", parse_access)?.unwrap_or(default.buffer_access),
            psn: words.number("psn")?.unwrap_or(default.psn),
            timeout: words.number("timeout")?.unwrap_or(default.timeout),
            retry_cnt: words.number("retry_cnt")?.unwrap_or(default.retry_cnt),
            rnr_retry: words.number("rnr_retry")?.unwrap_or(default.rnr_retry),
            min_rnr_timer: words.number("min_rnr_timer")?.unwrap_or(default.min_rnr_timer),
            max_rd_atomic: words.number("max_rd_atomic")?.unwrap_or(default.max_rd_atomic),
            max_dest_rd_atomic: words.number("max_dest_rd_atomic")?.unwrap_or(default.max_dest_rd_atomic),
            qkey: words.number("qkey")?.unwrap_or(default.qkey),
            traffic_class: words.number("tos")?.unwrap_or(default.traffic_class),
            ..default
        };
        plan.caps.max_inline_data = 0;
        self.peer_psn = words.number("peer_psn")?.unwrap_or(self.peer_psn);
        words.end()?;
        Ok(plan)
    }

    /// The case over one version of IP.
    pub(super) fn case(self, name: &str, variant: &Variant, version: IpVersion) -> Case {
        let mut needs = vec![version.raw_need()];
        needs.append(&mut self.needs.clone());
        for plan in &self.plans {
            needs.extend(match plan.qp_type {
                QpType::Uc => Some(Need::Uc),
                QpType::Ud => Some(Need::Ud),
                _ => None,
            });
        }
        needs.extend(self.steps.iter().filter_map(|(_, step)| need_of(step, version)));
        needs.sort_unstable();
        needs.dedup();
        let title = format!("wire/{name}{}/{version}", variant.suffix());
        let rules = self.rules.clone();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        Case::new(title, &rules, move |lab| super::run::run(lab, &self, version)).raw_peer().needs(needs)
    }
}

/// What a step needs.
fn need_of(step: &Step, version: IpVersion) -> Option<Need> {
    match step {
        Step::Inject(packet) if packet.1.to_group => Some(version.group_need()),
        Step::Inject(packet) => {
            let is_false = packet.1.envelope.is_some_and(|envelope| envelope != Envelope::True);
            // A socket has a port.
            (is_false || packet.1.source_port == Some(0)).then_some(Need::RawHeaders)
        }
        Step::Expect(packet, _) => packet.traffic_class.is_some().then_some(Need::RawTrafficClass),
        Step::Group { .. } => Some(version.group_need()),
        Step::Pass(_) => Some(Need::VirtualTime),
        _ => None,
    }
}

fn parse_mtu(text: &str) -> Result<PathMtu, Reason> {
    let bytes = parse_number(text)?;
    let found = PathMtu::ALL.into_iter().find(|mtu| u64::from(mtu.bytes()) == bytes);
    found.ok_or_else(|| format!("{text} is no path MTU"))
}

/// First PSN of the QP under test.
const OWN_PSN: u32 = 0x00_1000;
/// First PSN of the peer, unless a script says otherwise.
const PEER_PSN: u32 = 0x00_2000;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A comment.
rule IBTA 9.7.2
over ipv4
qp rc mtu=512 access=write,read peer_psn=0xfffffe
with code=1 codename=x   # Two names, of which one begins with the other.
with code=2 codename=y
recv $code     # $codename
quiet
";

    #[test]
    fn a_script_is_read_once_for_each_variant() {
        let variants = variants("s", TEXT).expect("variants");
        assert_eq!(variants.len(), 2);
        let script = Script::parse("s", TEXT, &variants[1]).expect("a script");
        assert_eq!(script.rules, ["IBTA 9.7.2"]);
        assert_eq!((script.plans[0].mtu, script.peer_psn), (PathMtu::Mtu512, 0xff_fffe));
        assert_eq!(script.steps[0], (7, Step::Recv { qp: 1, wr_id: 2, list: None }));
        assert_eq!(variants[1].apply("$codename $code"), "y 2");
    }

    #[test]
    fn a_mistake_has_its_line() {
        let text = "rule x\nqp rc\n\nrecv one";
        let error = Script::parse("s", text, &Variant::default()).expect_err("wrong");
        assert_eq!(error.to_string(), "s.wire, line 4: one is no number");
        let error = Script::parse("s", "quiet", &Variant::default()).expect_err("wrong");
        assert_eq!(error.line, 1);
    }
}
