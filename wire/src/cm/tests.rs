use super::*;
use crate::header::testing::Header;

fn mad(class: u8, version: u8, method: u8, attribute: u16) -> Mad {
    Mad::new(MadHeader::new(class, version, method, 7, attribute), [0; Mad::BODY_LEN])
}

#[test]
fn attributes_have_their_messages() {
    fn is<T: Body + Header>(attribute: u16) {
        assert_eq!(T::ATTRIBUTE, attribute);
        assert!(Message::parse(&mad(7, 2, 3, attribute)).is_ok());
    }
    is::<Req>(0x10);
    is::<Mra>(0x11);
    is::<Rej>(0x12);
    is::<Rep>(0x13);
    is::<Rtu>(0x14);
    is::<Dreq>(0x15);
    is::<Drep>(0x16);
    is::<SidrReq>(0x17);
    is::<SidrRep>(0x18);
    is::<Lap>(0x19);
    is::<Apr>(0x1a);
}

#[test]
fn other_datagrams_are_no_messages() {
    assert_eq!(Message::parse(&mad(4, 2, 3, 0x10)), Err(CmError::Class(4)));
    assert_eq!(Message::parse(&mad(7, 1, 3, 0x10)), Err(CmError::ClassVersion(1)));
    assert_eq!(Message::parse(&mad(7, 2, 0x81, 0x10)), Err(CmError::Method(0x81)));
    for attribute in [0, 0x0f, 0x1b, 0x1000, 0xffff] {
        assert_eq!(Message::parse(&mad(7, 2, 3, attribute)), Err(CmError::Attribute(attribute)));
    }
}

#[test]
fn private_data_that_does_not_fit_is_refused() {
    let data = [7; 93];
    assert_eq!(
        Req::default().with_private_data(&data),
        Err(PrivateDataTooLong { len: 93, room: Req::PRIVATE_DATA_LEN })
    );
    let full = Req::default().with_private_data(&data[..92]).expect("as much as there is room");
    let short = full.with_private_data(&data[..1]).expect("one byte");
    assert_eq!(short.private_data()[..2], [7, 0], "the rest is cleared");
}
