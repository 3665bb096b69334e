//! The end of a process tree within one grace: TERM once, the agent's KILL at three quarters, the
//! rest's at the end, and a second for what cannot be killed.

use std::time::{Duration, Instant};

/// How long something may survive KILL before it is left alone.
pub const AFTER_KILL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    asked: Instant,
    /// What is left when the agent is gone has so long, within the grace.
    rest: Duration,
    urge_at: Instant,
    kill_at: Instant,
    agent: Agent,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    Alive,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asked,
    /// The agent's three quarters are over.
    Urged,
    Killed {
        at: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// TERM to everything that has not had it yet.
    Term,
    KillAgent,
    KillAll,
    /// Say what survived, and end.
    GiveUp,
}

impl Stop {
    pub fn begin(agent: Agent, grace: Duration, rest: Duration, now: Instant) -> (Stop, Vec<Order>) {
        let (urge_at, kill_at) = (now + grace * 3 / 4, now + grace);
        let mut stop = Stop { asked: now, rest, urge_at, kill_at, agent, stage: Stage::Asked };
        if agent == Agent::Gone {
            stop.hold_the_rest(now);
        }
        (stop, vec![Order::Term])
    }

    fn hold_the_rest(&mut self, now: Instant) {
        if now + self.rest < self.kill_at {
            self.kill_at = now + self.rest;
            self.urge_at = self.urge_at.min(now + self.rest * 3 / 4);
        }
    }

    pub fn asked(&self) -> Instant {
        self.asked
    }

    /// The agent's three quarters are over: now it is the turn of what entered from outside.
    pub fn is_urged(&self) -> bool {
        self.stage != Stage::Asked
    }

    pub fn has_killed(&self) -> bool {
        matches!(self.stage, Stage::Killed { .. })
    }

    pub fn deadline(&self) -> Instant {
        match self.stage {
            Stage::Asked => self.urge_at,
            Stage::Urged => self.kill_at,
            Stage::Killed { at } => at + AFTER_KILL,
        }
    }

    /// An extra call before the deadline does nothing.
    pub fn due(&mut self, now: Instant) -> Vec<Order> {
        let mut orders = Vec::new();
        while now >= self.deadline() {
            match self.stage {
                Stage::Asked => {
                    self.stage = Stage::Urged;
                    if self.agent == Agent::Alive {
                        orders.push(Order::KillAgent);
                    }
                    // What has come since, and what entered from outside, gets its TERM now.
                    orders.push(Order::Term);
                }
                Stage::Urged => {
                    self.stage = Stage::Killed { at: now };
                    orders.push(Order::KillAll);
                }
                Stage::Killed { .. } => {
                    orders.push(Order::GiveUp);
                    break;
                }
            }
        }
        orders
    }

    /// The agent has ended: what is left, and what it had kept from us, gets its TERM.
    pub fn agent_gone(&mut self, now: Instant) -> Vec<Order> {
        self.agent = Agent::Gone;
        self.hold_the_rest(now);
        match self.stage {
            Stage::Asked | Stage::Urged => vec![Order::Term],
            Stage::Killed { .. } => vec![],
        }
    }

    pub fn agent(&self) -> Agent {
        self.agent
    }

    /// Asked a second time: no more patience.
    pub fn hurry(&mut self, now: Instant) -> Vec<Order> {
        match self.stage {
            Stage::Asked | Stage::Urged => {
                self.stage = Stage::Killed { at: now };
                vec![Order::KillAll]
            }
            Stage::Killed { .. } => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(8);

    fn begun(agent: Agent) -> (Stop, Instant) {
        let now = Instant::now();
        let (stop, orders) = Stop::begin(agent, GRACE, GRACE, now);
        assert_eq!(orders, [Order::Term]);
        (stop, now)
    }

    #[test]
    fn the_agent_is_killed_at_three_quarters_and_the_rest_at_the_end() {
        let (mut stop, start) = begun(Agent::Alive);
        assert_eq!(stop.due(start + Duration::from_millis(5999)), []);
        assert_eq!(stop.deadline(), start + Duration::from_secs(6));
        assert_eq!(stop.due(start + Duration::from_secs(6)), [Order::KillAgent, Order::Term]);
        assert_eq!(stop.agent_gone(start + Duration::from_secs(6)), [Order::Term]);
        assert_eq!(stop.due(start + Duration::from_millis(7999)), []);
        assert_eq!(stop.due(start + GRACE), [Order::KillAll]);
        assert_eq!(stop.due(start + Duration::from_millis(8999)), []);
        assert_eq!(stop.due(start + Duration::from_secs(9)), [Order::GiveUp]);
    }

    #[test]
    fn a_second_request_kills_at_once_and_a_third_changes_nothing() {
        let (mut stop, start) = begun(Agent::Alive);
        let later = start + Duration::from_secs(1);
        assert_eq!(stop.hurry(later), [Order::KillAll]);
        assert_eq!(stop.hurry(later), []);
        assert_eq!(stop.agent_gone(later), []);
        assert_eq!(stop.deadline(), later + AFTER_KILL);
    }

    #[test]
    fn no_grace_kills_in_one_step_and_still_asks_first() {
        let now = Instant::now();
        let (mut stop, orders) = Stop::begin(Agent::Alive, Duration::ZERO, Duration::ZERO, now);
        assert_eq!(orders, [Order::Term]);
        assert_eq!(stop.due(now), [Order::KillAgent, Order::Term, Order::KillAll]);
        assert_eq!(stop.deadline(), now + AFTER_KILL);
    }

    /// A node's grace is the sum of what its children may take; what is left of them is told all at once.
    #[test]
    fn the_rest_has_its_own_time_once_the_agent_is_gone() {
        let now = Instant::now();
        let secs = Duration::from_secs;
        let (mut stop, _) = Stop::begin(Agent::Alive, secs(4000), secs(8), now);
        assert_eq!(stop.deadline(), now + secs(3000));
        stop.agent_gone(now + secs(5));
        assert_eq!(stop.due(now + secs(11)), [Order::Term]);
        assert_eq!(stop.due(now + secs(13)), [Order::KillAll]);
        let (stop, _) = Stop::begin(Agent::Gone, secs(4000), secs(8), now);
        assert_eq!(stop.deadline(), now + secs(6));
        let (mut stop, _) = Stop::begin(Agent::Alive, secs(4000), secs(8), now);
        stop.due(now + secs(3000));
        stop.agent_gone(now + secs(3999));
        assert_eq!(stop.deadline(), now + secs(4000), "within the grace");
    }

    #[test]
    fn an_agent_that_is_gone_is_not_killed() {
        let (mut stop, start) = begun(Agent::Gone);
        assert_eq!(stop.due(start + Duration::from_secs(6)), [Order::Term]);
    }
}
