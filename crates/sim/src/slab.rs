//! Things on their way, by number.

/// Slots that are used again, so that memory follows how many things are on their way at once and not
/// how many there were.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<T>,
    /// Which slots hold a thing that is on its way.
    is_live: Vec<bool>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), is_live: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    #[inline]
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = item;
            self.is_live[id as usize] = true;
            return id;
        }
        self.slots.push(item);
        self.is_live.push(true);
        (self.slots.len() - 1) as u32
    }

    /// One more thing that is like another.
    #[inline]
    pub(crate) fn duplicate(&mut self, id: u32) -> u32
    where
        T: Copy,
    {
        let Some(copy) = self.free.pop() else { return self.insert(self.slots[id as usize]) };
        let id = id as usize;
        self.slots.copy_within(id..=id, copy as usize);
        self.is_live[copy as usize] = true;
        copy
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        let was_live = std::mem::replace(&mut self.is_live[id as usize], false);
        debug_assert!(was_live, "{id} ended twice");
        self.free.push(id);
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The numbers of those on their way.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        (0..self.slots.len() as u32).filter(|&id| self.is_live[id as usize])
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.slots[id as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.slots[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again() {
        let mut slab = Slab::default();
        assert_eq!(['a', 'b', 'c'].map(|item| slab.insert(item)), [0, 1, 2]);
        slab.remove(1);
        assert_eq!((slab.len(), slab.ids().collect::<Vec<_>>()), (2, vec![0, 2]));
        assert_eq!((slab.insert('d'), slab[1]), (1, 'd'));
        slab[1] = 'e';
        assert_eq!((slab.len(), slab[1], slab.insert('f')), (3, 'e', 3));
        slab.remove(0);
        assert_eq!([slab.duplicate(1), slab.duplicate(2)], [0, 4]);
        assert_eq!((slab.len(), slab[0], slab[4]), (5, 'e', 'c'));
    }
}
