//! The end of a process tree within one grace: TERM once, the agent's KILL at three quarters, the
//! rest's at the end, and a second for what cannot be killed.

use std::time::{Duration, Instant};

/// How long something may survive KILL before it is left alone.
pub const AFTER_KILL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    asked: Instant,
    grace: Duration,
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
    pub fn begin(agent: Agent, grace: Duration, now: Instant) -> (Stop, Vec<Order>) {
        (Stop { asked: now, grace, agent, stage: Stage::Asked }, vec![Order::Term])
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
            Stage::Asked => self.asked + self.grace * 3 / 4,
            Stage::Urged => self.asked + self.grace,
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
    pub fn agent_gone(&mut self) -> Vec<Order> {
        self.agent = Agent::Gone;
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
        let (stop, orders) = Stop::begin(agent, GRACE, now);
        assert_eq!(orders, [Order::Term]);
        (stop, now)
    }

    #[test]
    fn the_agent_is_killed_at_three_quarters_and_the_rest_at_the_end() {
        let (mut stop, start) = begun(Agent::Alive);
        assert_eq!(stop.due(start + Duration::from_millis(5999)), []);
        assert_eq!(stop.deadline(), start + Duration::from_secs(6));
        assert_eq!(stop.due(start + Duration::from_secs(6)), [Order::KillAgent, Order::Term]);
        assert_eq!(stop.agent_gone(), [Order::Term]);
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
        assert_eq!(stop.agent_gone(), []);
        assert_eq!(stop.deadline(), later + AFTER_KILL);
    }

    #[test]
    fn no_grace_kills_in_one_step_and_still_asks_first() {
        let now = Instant::now();
        let (mut stop, orders) = Stop::begin(Agent::Alive, Duration::ZERO, now);
        assert_eq!(orders, [Order::Term]);
        assert_eq!(stop.due(now), [Order::KillAgent, Order::Term, Order::KillAll]);
        assert_eq!(stop.deadline(), now + AFTER_KILL);
    }

    #[test]
    fn an_agent_that_is_gone_is_not_killed() {
        let (mut stop, start) = begun(Agent::Gone);
        assert_eq!(stop.due(start + Duration::from_secs(6)), [Order::Term]);
    }
}
