//! Names of ports: what is read is read again after showing it.
#![no_main]

use candor_port::Address;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match text.parse::<Address>() {
        Ok(address) => {
            assert_eq!(address.to_string().parse(), Ok(address.clone()));
            for (key, value) in address.options() {
                assert_eq!(address.option(key), Some(value.as_str()));
                let _ = address.duration(key);
            }
        }
        Err(error) => assert!(error.to_string().contains("is not a port")),
    }
});
