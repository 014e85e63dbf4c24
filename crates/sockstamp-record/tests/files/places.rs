//! Whose file it is, and where it may be.

use super::*;

#[test]
fn a_file_that_is_written_is_neither_recovered_nor_written_by_another() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut writer = Writer::create(&path, &[]).unwrap();
    writer.write(&batch(&[message(1)])).unwrap();
    let before = fs::read(&path).unwrap();
    for error in [
        recover(&path).unwrap_err(),
        Writer::create(&path, &[]).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        let told = error.to_string();
        assert!(told.ends_with("file is still being recorded"), "{told}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    writer.write(&batch(&[message(2)])).unwrap();
    writer.finish().unwrap();
    assert_eq!(recover(&path).unwrap().rows, 2);
}

#[test]
fn a_new_file_takes_the_place_of_none_but_an_empty_one() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a recording").unwrap();
    let error = Writer::create(&path, &[]).unwrap_err();
    let expected = format!("{} exists: name another, or remove it", path.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(fs::read(&path).unwrap(), b"a recording");
    fs::write(&path, "").unwrap();
    // As mktemp(1) makes it.
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    Writer::create(&path, &[]).unwrap().discard().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    Writer::create(&path, &[]).unwrap().finish().unwrap();
    assert_eq!(Reader::open(&path).unwrap().rows(), 0);
    let other = directory.path().join("other");
    Writer::create(&other, &[]).unwrap().discard().unwrap();
    assert!(!other.exists());
}

/// As another user may put it there.
#[test]
fn no_link_is_followed_and_a_file_is_for_its_owner_alone() {
    let directory = tempdir().unwrap();
    let [precious, link] = ["precious", "link"].map(|name| directory.path().join(name));
    for target in [&precious, &directory.path().join("nothing")] {
        fs::write(&precious, "").unwrap();
        symlink(target, &link).unwrap();
        let error = Writer::create(&link, &[]).unwrap_err();
        let told = error.source().unwrap().to_string();
        assert_eq!(told, "it is a symbolic link");
        assert_eq!(fs::read(&precious).unwrap(), b"");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        fs::remove_file(&link).unwrap();
    }
    // Its directory may be replaced, too: what is removed is what was created.
    let [real, moved] = ["real", "moved"].map(|name| directory.path().join(name));
    fs::create_dir(&real).unwrap();
    let path = real.join("precious");
    let writer = Writer::create(&path, &[]).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    fs::rename(&real, &moved).unwrap();
    symlink(directory.path(), &real).unwrap();
    writer.discard().unwrap();
    assert!(precious.exists() && !moved.join("precious").exists());
}

/// As another user may put it into /tmp, or keep it open from the time when it was theirs.
#[test]
fn an_empty_file_that_others_may_use_is_refused_and_stays_empty() {
    let directory = tempdir().unwrap();
    let [path, name] = ["file.packets", "name"].map(|name| directory.path().join(name));
    let refused = |reason: &str| {
        let error = Writer::create(&path, &[]).unwrap_err();
        assert!(matches!(error, Error::Shared { .. }), "{error}");
        let told = error.to_string();
        assert!(told.contains(reason), "{told}");
        assert_eq!(fs::read(&path).unwrap(), b"");
    };
    fs::write(&path, "").unwrap();
    for mode in [0o620, 0o602, 0o640, 0o604] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        refused(&format!("others may use it: its mode is {mode:04o}"));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(&path, &name).unwrap();
    refused("it has 2 names");
    fs::remove_file(&name).unwrap();
    chown(&path, Some(54_321), None).unwrap();
    refused("it belongs to user 54321");
    chown(&path, Some(0), None).unwrap();
    Writer::create(&path, &[]).unwrap().finish().unwrap();
}
