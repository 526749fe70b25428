use super::*;

fn sample(kind: Kind) -> Recordings {
    let features = match kind {
        Kind::PhysioNet2012 => physionet_features(),
        Kind::Csv => vec![
            Feature { name: "größe".into(), role: Role::Static },
            Feature { name: "x".into(), role: Role::Series },
            Feature { name: "y".into(), role: Role::Series },
        ],
    };
    let series = features.iter().position(|f| f.role == Role::Series).unwrap() as u16;
    let mut records = Vec::new();
    for id in ["9", "10", "11"] {
        let mut builder = Builder::default();
        builder.point(0.0);
        builder.constant(0, 1.5);
        builder.at(0.05, series, -2.25);
        builder.at(0.05, series + 1, 4.0);
        builder.at(47.75, series, f32::MIN_POSITIVE);
        records.push(builder.finish(id.into()));
    }
    let counts = Counts { found: 5, skipped: 2, ignored_lines: 7, unordered: 1 };
    Recordings { kind, features, records, order: Order::Shuffled(12), source: [7; 16], counts }
}

/// The body changed by `change`, with a head that fits it.
fn forged(recordings: &Recordings, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = encode(recordings)[HEAD..].to_vec();
    change(&mut body);
    let mut bytes = Vec::new();
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(Md5::digest(&body));
    bytes.extend(body);
    bytes
}

/// Where this sequence of bytes begins in the body.
fn find(recordings: &Recordings, bytes: &[u8]) -> usize {
    encode(recordings)[HEAD..].windows(bytes.len()).position(|window| window == bytes).unwrap()
}

#[test]
fn what_is_written_is_read() {
    for kind in KINDS {
        let recordings = sample(kind);
        assert_eq!(decode(&encode(&recordings)).unwrap(), recordings);
        let sorted = recordings.with_order(Order::Sorted);
        assert_eq!(decode(&encode(&sorted)).unwrap(), sorted);
    }
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = encode(&sample(Kind::Csv));
    for length in 0..bytes.len() {
        let (at, fault) = decode(&bytes[..length]).unwrap_err();
        assert!(at <= length, "{length}: {at}");
        let expected = if length < MAGIC.len() {
            fault == PreparedFault::Magic
        } else {
            matches!(fault, PreparedFault::Truncated { missing } if missing > 0)
        };
        assert!(expected, "{length}: {fault:?}");
    }
    // With a checksum that fits, only the body itself can show that it is not whole.
    let whole = bytes.len() - HEAD;
    for length in 0..whole {
        let bytes = forged(&sample(Kind::Csv), |body| body.truncate(length));
        assert!(decode(&bytes).is_err(), "{length}");
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let bytes = encode(&sample(Kind::PhysioNet2012));
    for place in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[place] ^= 0x10;
        assert!(decode(&bytes).is_err(), "{place}");
    }
}

#[test]
fn no_forged_body_panics_and_what_is_accepted_is_consistent() {
    for kind in KINDS {
        let recordings = sample(kind);
        for place in 0..encode(&recordings).len() - HEAD {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                if let Ok(read) = decode(&forged(&recordings, |body| body[place] = value)) {
                    assert_eq!(decode(&encode(&read)).unwrap(), read);
                }
            }
        }
    }
}

#[test]
fn faults_are_named_with_their_place() {
    let recordings = sample(Kind::Csv);
    let bytes = encode(&recordings);
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert_eq!(decode(&newer).unwrap_err(), (8, PreparedFault::Version { expected: 1, found: 9 }));
    let mut longer = bytes.clone();
    longer.extend([0; 3]);
    assert_eq!(decode(&longer).unwrap_err(), (bytes.len(), PreparedFault::TrailingBytes { extra: 3 }));
    assert_eq!(decode(b"PK\x03\x04 something else").unwrap_err(), (0, PreparedFault::Magic));
    assert_eq!(decode(b"").unwrap_err(), (0, PreparedFault::Magic));

    let what = |bytes: Vec<u8>| match decode(&bytes).unwrap_err().1 {
        PreparedFault::Content(what) => what.to_owned(),
        PreparedFault::Record { record, what } => format!("{record}: {what}"),
        other => panic!("{other:?}"),
    };
    let value = find(&recordings, &(-2.25_f32).to_le_bytes());
    let time = find(&recordings, &47.75_f64.to_le_bytes());
    let put = |place: usize, new: &[u8]| {
        forged(&recordings, |body| body[place..place + new.len()].copy_from_slice(new))
    };
    assert_eq!(what(put(value, &f32::NAN.to_le_bytes())), "9: a value that is no number");
    assert_eq!(what(put(value, &f32::INFINITY.to_le_bytes())), "9: a value that is no number");
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.01] {
        assert!(what(put(time, &bad.to_le_bytes())).starts_with("9: a time"), "{bad}");
    }
    assert!(what(put(value - 2, &77_u16.to_le_bytes())).contains("feature that cannot be here"));
    assert!(what(put(value - 2, &0_u16.to_le_bytes())).contains("feature that cannot be here"));
    let record = find(&recordings, b"\x02\x0010") + 2;
    assert_eq!(what(put(record, b"11")), "11: out of order");
    assert_eq!(what(put(record, b"\xff\xfe")), "a name that is no text");

    let physionet = sample(Kind::PhysioNet2012);
    let off_grid = find(&physionet, &47.75_f64.to_le_bytes());
    let bytes =
        forged(&physionet, |body| body[off_grid..off_grid + 8].copy_from_slice(&47.76_f64.to_le_bytes()));
    assert!(what(bytes).starts_with("9: a time"));
    let name = find(&physionet, b"Albumin");
    let bytes = forged(&physionet, |body| body[name] = b'B');
    assert_eq!(what(bytes), "other features than those of physionet2012");
}

#[test]
fn forged_counts_do_not_allocate() {
    let recordings = sample(Kind::Csv);
    let counts = 1 + 1 + 8 + 16;
    let records = find(&recordings, b"\x01\x009") - 20;
    let bytes = forged(&recordings, |body| {
        body[counts..counts + 8].copy_from_slice(&(u64::from(u32::MAX) + 2).to_le_bytes());
        body[records..records + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    });
    assert_eq!(decode(&bytes).unwrap_err().1, PreparedFault::Content("more records than fit into the file"));
}
