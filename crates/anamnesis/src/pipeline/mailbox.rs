//! Messages from threads to the one that waits for them, in the order they were sent.
//!
//! The channels of the standard library are made for far more than a message for each tile, and compiled anew, with all their
//! kinds, for every type of message.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A mailbox, as those have it who send and as the one has it who receives.
pub(super) fn mailbox<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { messages: VecDeque::new(), senders: 1, has_receiver: true, waits: false };
    let mailbox = Arc::new(Mailbox { state: Mutex::new(state), changed: Condvar::new() });
    (Sender(Arc::clone(&mailbox)), Receiver(mailbox))
}

/// Puts messages in. The last one that goes ends the receiver's iteration.
pub(super) struct Sender<T>(Arc<Mailbox<T>>);

/// Takes messages out, and waits for them.
pub(super) struct Receiver<T>(Arc<Mailbox<T>>);

struct Mailbox<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    messages: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
    /// Whether the receiver sleeps until something changes.
    waits: bool,
}

impl<T> Mailbox<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut state: MutexGuard<'_, State<T>>) {
        if std::mem::take(&mut state.waits) {
            self.changed.notify_one();
        }
    }
}

impl<T> Sender<T> {
    /// Sends a message; where nobody receives any more, it is lost.
    pub(super) fn send(&self, message: T) {
        let mut state = self.0.state();
        if state.has_receiver {
            state.messages.push_back(message);
            self.0.wake(state);
        }
    }

    /// Sends a message where none waits to be received. Says whether it was sent.
    pub(super) fn send_if_empty(&self, message: T) -> bool {
        let mut state = self.0.state();
        let is_free = state.has_receiver && state.messages.is_empty();
        if is_free {
            state.messages.push_back(message);
            self.0.wake(state);
        }
        is_free
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.senders -= 1;
        self.0.wake(state);
    }
}

impl<T> Iterator for Receiver<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let mut state = self.0.state();
        loop {
            let message = state.messages.pop_front();
            if message.is_some() || state.senders == 0 {
                return message;
            }
            state.waits = true;
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_receiver = false;
        let unread = std::mem::take(&mut state.messages);
        // What messages do when they are dropped is not done under the lock.
        drop(state);
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_once_and_those_of_a_sender_in_order() {
        let (sender, receiver) = mailbox();
        let received: Vec<(usize, usize)> = std::thread::scope(|scope| {
            for thread in 0..4 {
                let sender = sender.clone();
                scope.spawn(move || (0..1000).for_each(|number| sender.send((thread, number))));
            }
            drop(sender);
            receiver.collect()
        });
        for thread in 0..4 {
            let numbers = received.iter().filter(|(from, _)| *from == thread).map(|(_, number)| *number);
            assert!(numbers.eq(0..1000), "those of thread {thread}");
        }
        assert_eq!(received.len(), 4000);
    }

    #[test]
    fn a_message_that_waits_keeps_further_ones_out() {
        let (sender, mut receiver) = mailbox();
        assert!(sender.send_if_empty(1));
        assert!(!sender.send_if_empty(2));
        assert_eq!(receiver.next(), Some(1));
        assert!(sender.send_if_empty(3));
        drop(sender);
        assert_eq!(receiver.collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn nothing_is_sent_where_nobody_receives() {
        let (sender, receiver) = mailbox();
        drop(receiver);
        sender.send(1);
        assert!(!sender.send_if_empty(2));
    }
}
