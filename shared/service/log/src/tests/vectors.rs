//! Known answers: RFC 6962's tree by the vectors of certificate-transparency-go, and the examples of C2SP.

use assay_protocol::identity::Identity;
use assay_work::PublicKey;

use super::{entry, identity, key};
use crate::checkpoint::{Checkpoint, SignedCheckpoint};
use crate::edge::Edge;
use crate::entry::VerdictEntry;
use crate::hash::{Hash, sha256};
use crate::note::{KeyKind, Note, NoteKey};
use crate::proof::{consistency, includes, inclusion, is_consistent};
use crate::tile::{Tile, TileKind};

const LEAVES: [&str; 8] =
    ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
const ROOTS: [&str; 8] = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];
const NODE_6_8: &str = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0";

fn hash(text: &str) -> Hash {
    Hash(hex::decode(text).unwrap().try_into().unwrap())
}

fn leaves() -> Vec<Hash> {
    LEAVES.iter().map(|leaf| Hash::leaf(&hex::decode(leaf).unwrap())).collect()
}

#[test]
fn roots_and_proofs_are_those_of_rfc_6962() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let (leaves, mut edge) = (leaves(), Edge::default());
    assert_eq!((Hash::empty(), edge.root()), (hash(empty), hash(empty)));
    for (size, root) in (1..).zip(ROOTS) {
        edge.push(leaves[size - 1]);
        assert_eq!((Hash::above(&leaves[..size]), edge.root()), (hash(root), hash(root)), "{size}");
    }
    let hashes = |subtrees: Vec<(u64, u64)>| -> Vec<Hash> {
        subtrees.iter().map(|(low, high)| Hash::above(&leaves[*low as usize..*high as usize])).collect()
    };
    let known = ["bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b", NODE_6_8, ROOTS[3]].map(hash);
    assert_eq!(hashes(inclusion(5, 8)), known);
    assert!(includes(leaves[5], 5, 8, &known, &hash(ROOTS[7])));
    let known = ["0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a", NODE_6_8, ROOTS[3]].map(hash);
    assert_eq!(hashes(consistency(6, 8)), known);
    assert!(is_consistent((6, &hash(ROOTS[5])), (8, &hash(ROOTS[7])), &known));
    let known = [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ];
    assert_eq!(hashes(consistency(1, 8)), known.map(hash));
}

/// The example of C2SP `signed-note`.
const VKEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const NOTE: &str = "This is an example message.\n\n\u{2014} example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONnc\
     AlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

#[test]
fn notes_are_those_of_c2sp() {
    let key: NoteKey = VKEY.parse().unwrap();
    assert_eq!((key.to_string().as_str(), key.name(), key.kind()), (VKEY, "example.com/foo", KeyKind::Note));
    let note = Note::parse(NOTE).unwrap();
    assert_eq!(note.text, "This is an example message.\n");
    assert!(note.signature(&key).unwrap().is_some());
    // Any other byte: refused, or without a signature of the key.
    for at in 0..NOTE.len() {
        let mut other = NOTE.as_bytes().to_vec();
        other[at] ^= 1;
        let Ok(other) = String::from_utf8(other) else { continue };
        let signed = Note::parse(&other).and_then(|note| note.signature(&key).map(|line| line.is_some()));
        assert!(!matches!(signed, Ok(true)), "{at}: {other}");
    }
    let beyond =
        [VKEY.replace("530d903a", "530d903b"), VKEY.replace("AekyeR", "BOkyeR"), VKEY.replace("foo+", "foo bar+")];
    for wrong in beyond.iter().map(String::as_str).chain(["", "a+b", "a+530d903a+AekyeR", "+530d903a+AekyeR"]) {
        assert!(wrong.parse::<NoteKey>().is_err(), "{wrong}");
    }
    for wrong in [
        "",
        "a\n",
        "a\n\n",
        "a\n\nb\n",
        "a\n\n\u{2014} n AAAA",
        "a\n\n\u{2014} n !\n",
        "a\u{7}\n\n\u{2014} n AAAAAAAA\n",
    ] {
        assert!(Note::parse(wrong).is_err(), "{wrong:?}");
    }
    let lines = format!("a\n\n{}", "\u{2014} n AAAAAAAA\n".repeat(65));
    assert!(Note::parse(&lines).is_err() && Note::parse(&lines[..lines.len() - 15]).is_ok());
}

/// The examples of C2SP `tlog-checkpoint` and `tlog-cosignature`; their keys are not known.
#[test]
fn checkpoints_and_cosignatures_are_those_of_c2sp() {
    let text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    let checkpoint = Checkpoint::parse(text).unwrap();
    assert_eq!((checkpoint.size, checkpoint.text().as_str()), (20_852_163, text));
    let lines = ["a\n01\n", "a\n+1\n", "a\n\n1\n", "\n1\n", "a\n1099511627777\n"];
    for wrong in lines.map(|head| format!("{head}CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n")) {
        assert!(Checkpoint::parse(&wrong).is_err(), "{wrong}");
    }
    for wrong in
        ["a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n", "a\n1\n", "a\n1\nAAAA\n", &text[..text.len() - 1]]
    {
        assert!(Checkpoint::parse(wrong).is_err(), "{wrong}");
    }
    // The signed message of a cosignature, as the specification has it.
    let secret = identity();
    let witness = NoteKey::new("witness.example.com/w1", KeyKind::Cosignature, secret.public_key()).unwrap();
    let line = witness.sign(&secret, text, 1_679_315_147);
    let message = format!("cosignature/v1\ntime 1679315147\n{text}");
    let id = sha256(&[b"witness.example.com/w1\n\x04".as_slice(), &secret.public_key().0].concat());
    let bytes = [&id[..4], &1_679_315_147_u64.to_be_bytes(), &secret.sign(message.as_bytes()).0].concat();
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    assert_eq!(line, format!("\u{2014} witness.example.com/w1 {encoded}\n"));
    let note = checkpoint_of_ours().0 + &witness.sign(&secret, &checkpoint_of_ours().1, 5);
    let opened = SignedCheckpoint::open(&note, &key(), std::slice::from_ref(&witness)).unwrap();
    assert_eq!(opened.cosigned, std::slice::from_ref(&witness));
    // Another key of the same name has not cosigned it, and a log's own key is no witness's.
    let renewed =
        NoteKey::new(witness.name(), KeyKind::Cosignature, Identity::from_seed(&[8; 32]).public_key()).unwrap();
    assert_eq!(opened.missing(&[witness.clone(), renewed]).count(), 1);
    assert_eq!(NoteKey::witness(&witness.to_string()).unwrap(), witness);
    assert!(NoteKey::witness(&key().to_string()).is_err());
    // Without a time, a cosignature says nothing.
    let note = checkpoint_of_ours().0 + &witness.sign(&secret, &checkpoint_of_ours().1, 0);
    assert!(SignedCheckpoint::open(&note, &key(), &[witness]).is_err());
}

fn checkpoint_of_ours() -> (String, String) {
    let checkpoint = Checkpoint { origin: key().name().to_owned(), size: 1, root: Hash([3; 32]) };
    (checkpoint.sign(&identity()), checkpoint.text())
}

#[test]
fn tiles_are_those_of_c2sp() {
    let full = |kind, index| Tile { kind, index, width: 256 };
    let deep = full(TileKind::Hashes(0), 1_234_067);
    assert_eq!(deep.path(), "tile/0/x001/x234/067");
    // A tree of size 70,000.
    let width = |level, index| Tile::in_tree(TileKind::Hashes(level), index, 70_000).map(|tile| tile.width);
    assert_eq!((width(0, 272), width(0, 273), width(0, 274)), (Some(256), Some(112), None));
    assert_eq!(
        (width(1, 0), width(1, 1), width(2, 0), width(2, 1), width(3, 0)),
        (Some(256), Some(17), Some(1), None, None)
    );
    let partial = Tile { width: 112, ..full(TileKind::Entries, 273) };
    assert_eq!(partial.path(), "tile/entries/273.p/112");
    for tile in [deep, partial, full(TileKind::Hashes(5), 0), full(TileKind::Entries, 999_999)] {
        assert_eq!(tile.path().parse::<Tile>().unwrap(), tile);
    }
    for wrong in [
        "",
        "checkpoint",
        "tile/0",
        "tile/00/000",
        "tile/64/000",
        "tile/0/0",
        "tile/0/x000/000",
        "tile/0/001/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/07",
        "tile/0/000.p",
        "tile/x/000",
        "tile/0/../000",
        "tile/0/x001/x000",
        "tile/entries/xx1/000",
    ] {
        assert!(wrong.parse::<Tile>().is_err(), "{wrong}");
    }
}

#[test]
fn an_entry_is_four_lines_and_nothing_else() {
    let of = VerdictEntry::of(entry(1).challenge, "{}", Some("a.b.c"));
    let text = format!(
        "assay-log-entry/v1\nchallenge 00000000000000000000000000000001\nverdict {}\nreceipt {}\n",
        hex::encode(sha256(b"{}")),
        hex::encode(sha256(b"a.b.c"))
    );
    assert_eq!(of.encode(), text);
    assert_eq!(VerdictEntry::decode(text.as_bytes()).unwrap(), of);
    assert_eq!(VerdictEntry::decode(entry(3).encode().as_bytes()).unwrap(), entry(3));
    for wrong in
        [text.to_uppercase(), text.clone() + "\n", text.replace("v1", "v2"), text.replace("receipt ", "receipt  ")]
    {
        assert!(VerdictEntry::decode(wrong.as_bytes()).is_err(), "{wrong}");
    }
    // A key of another validator has another log.
    assert_ne!(crate::checkpoint::log_key(PublicKey([1; 32])).to_string(), key().to_string());
}
