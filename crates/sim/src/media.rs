//! The media that there are. To add one, add its line to the list below.

use crate::can::Can;
use crate::eth::Ethernet;
use crate::event::{Core, Rank, Ranked};
use crate::medium::{Medium, Outcome};

/// Makes the list of media: for each its name, its field and its type.
macro_rules! media {
    ($($(#[$doc:meta])* $name:ident $field:ident: $medium:ty;)+) => {
        /// Which medium.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum MediumId {
            $($(#[$doc])* $name,)+
        }

        /// What happens in a medium, or to others that take part: `P`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Event<P> {
            $($(#[$doc])* $name(<$medium as Medium>::Event),)+
            /// To others.
            Part(P),
        }

        $(
            impl<P> From<<$medium as Medium>::Event> for Event<P> {
                #[inline]
                fn from(event: <$medium as Medium>::Event) -> Self {
                    Self::$name(event)
                }
            }
        )+

        impl<P: Ranked> Ranked for Event<P> {
            #[inline]
            fn rank(self) -> Rank {
                match self {
                    $(Self::$name(event) => event.rank().in_medium(MediumId::$name as u8),)+
                    Self::Part(part) => part.rank(),
                }
            }
        }

        /// One of each medium.
        #[derive(Default)]
        pub struct Media {
            $($(#[$doc])* pub $field: $medium,)+
        }

        impl Media {
            /// An event happens; time has reached it. What follows is added to `outcomes`. Returns
            /// in which medium.
            ///
            /// # Errors
            /// The event, if it is one of the others that take part.
            #[inline(always)]
            pub fn happen<P: Ranked>(
                &mut self,
                core: &mut Core<Event<P>>,
                event: Event<P>,
                outcomes: &mut Vec<Outcome>,
            ) -> Result<MediumId, P> {
                match event {
                    $(Event::$name(event) => {
                        self.$field.happen(core, event, outcomes);
                        Ok(MediumId::$name)
                    })+
                    Event::Part(part) => Err(part),
                }
            }
        }
    };
}

media! {
    /// CAN buses.
    Can can: Can;
    /// Ethernet links.
    Ethernet eth: Ethernet;
}
