//! The path of a session's bytes, as each side sees it. Both sign it, so that a session is proved for one connection
//! and for no other: an intermediary that ends the connection of each side, and passes their messages on, has two.

use std::fmt;

/// How a side's end of a connection is protected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// TLS from end to end. The value is the connection's `tls-exporter` of RFC 9266, which no other one has.
    Tls([u8; 32]),
    /// TLS that ends at a proxy of the operators, which can read and change the bytes.
    Proxied,
    /// Without TLS.
    Plaintext,
}

/// A signature of the handshake holds for the session, but not for the channel that it came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelMismatch {
    /// This side's channel.
    pub here: Channel,
    /// The channel that the other side signed, where it is one that every connection can have.
    pub there: Option<Channel>,
}

impl Channel {
    /// Those that are no secret of one connection.
    const WITHOUT_EXPORTER: [Self; 2] = [Self::Proxied, Self::Plaintext];

    /// The channel's part of the signed bytes.
    pub const fn bytes(&self) -> [u8; 32] {
        match self {
            Self::Tls(exporter) => *exporter,
            Self::Proxied => *b"tls ends at a proxy\0\0\0\0\0\0\0\0\0\0\0\0\0",
            Self::Plaintext => *b"plaintext\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        }
    }

    /// Explains a signature that does not hold for this channel: `holds_for` checks it against another one.
    #[must_use]
    pub fn mismatch(self, holds_for: impl Fn(Self) -> bool) -> ChannelMismatch {
        let there = Self::WITHOUT_EXPORTER.into_iter().find(|other| *other != self && holds_for(*other));
        ChannelMismatch { here: self, there }
    }
}

/// Without the exporter, which only the two ends of a connection know.
impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls(_) => "Tls",
            Self::Proxied => "Proxied",
            Self::Plaintext => "Plaintext",
        })
    }
}

impl fmt::Display for ChannelMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.here, self.there) {
            (Channel::Tls(_), None | Some(Channel::Tls(_))) => {
                "the other side's signature does not hold for this TLS connection: something between miner and \
                 validator ends TLS, and could read and change what passes. Remove it, or set tls_proxy on both sides \
                 if it is yours"
            }
            (Channel::Tls(_), Some(Channel::Plaintext)) => {
                "this side's connection is TLS, the other side's is plaintext: something between miner and validator \
                 ends TLS, and could read and change what passes. Remove it, or set tls_proxy on both sides if it is \
                 yours"
            }
            (_, Some(Channel::Proxied)) => {
                "tls_proxy is set on the other side and not on this one: set it on both sides where a proxy of yours \
                 ends TLS, else on neither"
            }
            (Channel::Proxied, _) => {
                "tls_proxy is set on this side and not on the other one: set it on both sides where a proxy of yours \
                 ends TLS, else on neither"
            }
            (Channel::Plaintext, _) => {
                "the other side's signature is not one of its key for this plaintext connection: something between \
                 miner and validator is not what it claims, or the other side's connection is TLS"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use assay_work::Nonce;

    use super::*;
    use crate::identity::{Identity, SessionTranscript};

    #[test]
    fn each_channel_has_bytes_of_its_own() {
        assert_eq!(Channel::Tls([7; 32]).bytes(), [7; 32]);
        assert_eq!(&Channel::Plaintext.bytes()[..10], b"plaintext\0");
        assert_eq!(&Channel::Proxied.bytes()[..20], b"tls ends at a proxy\0");
        assert!(!format!("{:?}", Channel::Tls([7; 32])).contains('7'), "the exporter is no text for a log");
    }

    #[test]
    fn the_signatures_of_a_session_hold_for_its_channel_alone() {
        let (validator, miner) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
        let transcript = |channel| SessionTranscript {
            version: 2,
            validator_key: validator.public_key(),
            miner_key: miner.public_key(),
            nonce: Nonce([3; 32]),
            miner_nonce: Nonce([4; 32]),
            channel,
        };
        let channels = [Channel::Tls([1; 32]), Channel::Tls([2; 32]), Channel::Proxied, Channel::Plaintext];
        for signed in channels {
            let welcome = validator.sign(&transcript(signed).welcome_message());
            let proof = miner.sign(&transcript(signed).proof_message());
            for seen in channels {
                let holds = (transcript(seen).check_welcome(&welcome), transcript(seen).check_proof(&proof));
                if seen == signed {
                    assert_eq!(holds, (Ok(()), Ok(())));
                } else {
                    let there = Some(signed).filter(|signed| !matches!(signed, Channel::Tls(_)));
                    let mismatch = Err(ChannelMismatch { here: seen, there });
                    assert_eq!(holds, (mismatch, mismatch));
                }
            }
        }
    }

    #[test]
    fn a_mismatch_says_what_each_side_sees_and_what_to_do() {
        let tls = Channel::Tls([1; 32]);
        let of = |here: Channel, signed: Channel| here.mismatch(|other| other == signed);
        for (here, signed, there, said) in [
            (tls, Channel::Tls([2; 32]), None, "something between miner and validator ends TLS"),
            (tls, Channel::Plaintext, Some(Channel::Plaintext), "the other side's is plaintext"),
            (tls, Channel::Proxied, Some(Channel::Proxied), "set on the other side and not on this one"),
            (Channel::Plaintext, Channel::Proxied, Some(Channel::Proxied), "set on the other side and not on this one"),
            (Channel::Proxied, Channel::Plaintext, Some(Channel::Plaintext), "set on this side and not on the other"),
            (Channel::Proxied, tls, None, "set on this side and not on the other one"),
            (Channel::Plaintext, tls, None, "or the other side's connection is TLS"),
        ] {
            let mismatch = of(here, signed);
            assert_eq!(mismatch, ChannelMismatch { here, there }, "{here:?} {signed:?}");
            assert!(mismatch.to_string().contains(said), "{mismatch}");
        }
    }
}
