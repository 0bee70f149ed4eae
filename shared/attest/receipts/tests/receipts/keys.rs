//! The key that signs receipts, its rotation, and the JWK set.

use super::*;

#[test]
fn receipts_from_before_a_rotation_hold_while_the_overlap_lasts() {
    let issuer = Issuer::new();
    let (old, old_key) = (issuer.pass().token, issuer.identity().public_key());
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    Signer::rotate(&issuer.key_file(), Duration::from_secs(30 * DAY_S), now_s).unwrap();
    // Until it reloads, the signer goes on with its key, which the new set has as well.
    let file = key_set_file(&issuer.key_file());
    let set = || KeySet::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let expect = ReceiptExpectations { now_s: NOW, ..ReceiptExpectations::default() };
    let at = |now_s| ReceiptExpectations { now_s, leeway_s: NOW, ..ReceiptExpectations::default() };
    verify(&old, &set(), &ReceiptExpectations { leeway_s: 2 * NOW, ..at(now_s) }).unwrap();
    let reload = || issuer.signer.sign_with(issuer.signer.read_again().unwrap());
    assert!(reload() && !reload());
    let new = issuer.pass();
    assert_ne!(new.key_id, key_id(&old_key));
    verify(&new.token, &set(), &expect).unwrap();
    let until_s = now_s + 30 * DAY_S;
    let long_after = ReceiptExpectations { now_s: until_s, ..ReceiptExpectations::default() };
    assert_eq!(verify(&old, &set(), &long_after), Err(ReceiptError::KeyExpired { key_id: key_id(&old_key), until_s }));
    // Without an overlap the key before is given up at once, and those before it.
    Signer::rotate(&issuer.key_file(), Duration::ZERO, now_s).unwrap();
    for token in [&old, &new.token] {
        assert!(matches!(verify(token, &set(), &expect), Err(ReceiptError::UnknownKey(_))));
    }
}

/// Regression test: to open a key whose statements were not restored with it dropped the keys before it in silence.
#[test]
fn a_set_with_a_key_that_is_lost_is_not_replaced() {
    let issuer = Issuer::new();
    let (key_file, set) = (issuer.key_file(), key_set_file(&issuer.key_file()));
    let open = || Signer::open(&key_file, "assay-validator/0.0.0");
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let old = key_id(&issuer.identity().public_key());
    Signer::rotate(&key_file, Duration::from_secs(DAY_S), now_s).unwrap();
    let (both, statements) = (std::fs::read_to_string(&set).unwrap(), key_file.with_extension("key.successors"));
    let aside = std::fs::read(&statements).unwrap();
    open().unwrap();
    std::fs::remove_file(&statements).unwrap();
    let refused = open().unwrap_err().to_string();
    assert!(refused.contains(&old) && refused.contains("receipt.key.successors"), "{refused}");
    assert_eq!(std::fs::read_to_string(&set).unwrap(), both);
    std::fs::write(&statements, aside).unwrap();
    open().unwrap();
    // A shorter overlap after a longer one ends both: at its end no key is lost.
    let over_s = now_s + 3600;
    Signer::rotate(&key_file, Duration::from_secs(3600), now_s).unwrap();
    let three: Value = serde_json::from_str(&std::fs::read_to_string(&set).unwrap()).unwrap();
    let ends: Vec<_> = three["keys"].as_array().unwrap().iter().filter_map(|key| key["exp"].as_u64()).collect();
    assert_eq!(ends, [over_s, over_s], "{three:#}");
    // A key that nothing vouches for, in the place of the one that signs.
    std::fs::rename(&key_file, key_file.with_extension("aside")).unwrap();
    assert!(matches!(open(), Err(SignerError::LostKey { .. })));
    // The operator gives them up.
    std::fs::remove_file(&set).unwrap();
    open().unwrap();
    // The use of this one is over.
    let past = three.to_string().replace(&format!("\"exp\":{over_s}"), "\"exp\":1");
    assert_ne!(past, three.to_string());
    std::fs::rename(key_file.with_extension("aside"), &key_file).unwrap();
    std::fs::write(&set, past).unwrap();
    std::fs::remove_file(&statements).unwrap();
    open().unwrap();
}

#[test]
fn the_set_is_public_and_the_key_is_not() {
    let issuer = Issuer::new();
    let text = std::fs::read_to_string(key_set_file(&issuer.key_file())).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), issuer.signer.key_set(NOW).to_json());
    let seed = std::fs::read_to_string(issuer.key_file()).unwrap();
    let seed = hex(seed.trim());
    assert!(!text.contains(&URL_SAFE_NO_PAD.encode(&seed)) && !text.contains("\"d\""), "{text}");
    assert_eq!(names(issuer.folder.path()), ["receipt.jwks.json", "receipt.key"]);
}

/// Root writes the set in the folder of a service's user, who may have put a link there.
#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_new_set_is_not_followed() {
    let issuer = Issuer::new();
    let victim = issuer.folder.path().join("victim");
    std::fs::write(&victim, "kept").unwrap();
    let set = key_set_file(&issuer.key_file());
    std::fs::remove_file(&set).unwrap();
    std::os::unix::fs::symlink(&victim, set.with_extension("json.new")).unwrap();
    std::os::unix::fs::symlink(&victim, &set).unwrap();
    issuer.signer.sign_with(issuer.signer.read_again().unwrap());
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
    assert!(!std::fs::symlink_metadata(&set).unwrap().is_symlink());
    assert_eq!(names(issuer.folder.path()), ["receipt.jwks.json", "receipt.key", "victim"]);
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}
