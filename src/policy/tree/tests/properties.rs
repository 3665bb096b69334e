//! Whole trees of nodes on a machine of their own, where children come up, fail, hang and leave things
//! behind whenever they like.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Strategy as Made;

use super::*;
use crate::policy::tree::Strategy;
use crate::policy::tree::going::{PATIENCE, is_satisfied};

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// A node with all below it, as a file would have it.
#[derive(Clone, Debug)]
struct Plan {
    rules: Rules,
    children: Vec<(Spec, Kind)>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Milliseconds to come up and to end when told; never ends by TERM when `deaf`.
    Leaf {
        up: u64,
        down: u64,
        deaf: bool,
        leaves: bool,
    },
    Node(Box<Plan>),
}

impl Plan {
    fn longest_stop(&self) -> Duration {
        Tree::longest_stop(&self.rules, self.children.iter().map(|(spec, _)| spec.shutdown))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Ready,
    Ends(u8),
    Cleared,
}

/// A process, by its node and its number in it; a nested node is a node of its own.
struct Process {
    kind: Kind,
    node: Option<usize>,
}

struct Node {
    tree: Tree,
    plan: Plan,
    parent: Option<(usize, Key)>,
    processes: BTreeMap<Key, Process>,
    /// Dead children whose leftovers live.
    left: BTreeMap<Key, bool>,
    restarts: Vec<Instant>,
    /// Somebody has asked something of these, so their turn is not the order's.
    asked: BTreeSet<Key>,
    is_dead: bool,
}

type Later = std::cmp::Reverse<(Instant, u64, usize, Key, Happening)>;

struct Machine {
    nodes: Vec<Node>,
    later: BinaryHeap<Later>,
    now: Instant,
    nth: u64,
    ended: Option<u8>,
}

impl Machine {
    fn begins(plan: Plan) -> Machine {
        let now = Instant::now();
        let mut machine = Machine { nodes: vec![], later: BinaryHeap::new(), now, nth: 0, ended: None };
        machine.boots(plan, None);
        machine
    }

    fn boots(&mut self, plan: Plan, parent: Option<(usize, Key)>) -> usize {
        let specs = plan.children.iter().map(|(spec, _)| spec.clone()).collect();
        let (tree, effects) = Tree::begin(plan.rules.clone(), specs, self.now);
        self.nodes.push(Node {
            tree,
            plan,
            parent,
            processes: BTreeMap::new(),
            left: BTreeMap::new(),
            restarts: vec![],
            asked: BTreeSet::new(),
            is_dead: false,
        });
        let nth = self.nodes.len() - 1;
        self.perform(nth, effects);
        nth
    }

    fn happens(&mut self, after: u64, node: usize, key: Key, what: Happening) {
        self.nth += 1;
        let at = self.now + Duration::from_millis(after);
        self.later.push(std::cmp::Reverse((at, self.nth, node, key, what)));
    }

    fn hears(&mut self, node: usize, event: Event) {
        if self.nodes[node].is_dead {
            return;
        }
        let now = self.now;
        let effects = self.nodes[node].tree.step(event, now);
        self.perform(node, effects);
    }

    fn perform(&mut self, node: usize, effects: Vec<Effect>) {
        let spawned: Vec<Key> = effects
            .iter()
            .filter_map(|e| if let Effect::Spawn(key) = e { Some(*key) } else { None })
            .collect();
        let place = |machine: &Machine, key: Key| machine.nodes[node].tree.at(key).unwrap();
        assert!(spawned.windows(2).all(|pair| place(self, pair[0]) < place(self, pair[1])), "out of order");
        for effect in effects {
            match effect {
                Effect::Spawn(key) => self.spawn(node, key),
                Effect::Term(key) => self.term(node, key),
                Effect::Kill(key) => self.dies(node, key, 137),
                Effect::Clear(key) => match self.nodes[node].left.get(&key) {
                    Some(true) => self.happens(50, node, key, Happening::Cleared),
                    Some(false) => {}
                    None => self.happens(0, node, key, Happening::Cleared),
                },
                Effect::KillLeft(key) => self.happens(1, node, key, Happening::Cleared),
                Effect::TellExit(_, _, Sequel::Restart { .. }) => self.count(node),
                Effect::End(code) => self.node_ends(node, code),
                Effect::TellExit(..) | Effect::TellGaveUp(_) | Effect::Forget(_) | Effect::Up => {}
            }
        }
    }

    fn count(&mut self, node: usize) {
        let Node { restarts, plan, .. } = &mut self.nodes[node];
        restarts.push(self.now);
        let window = plan.rules.max_seconds;
        let within = restarts.iter().filter(|at| self.now.duration_since(**at) < window).count();
        assert!(within <= plan.rules.max_restarts as usize, "{within} restarts within {window:?}");
    }

    fn spawn(&mut self, node: usize, key: Key) {
        let Node { tree, plan, processes, left, .. } = &self.nodes[node];
        assert!(!processes.contains_key(&key), "two of one child");
        assert!(!left.contains_key(&key), "it meets its predecessor's leftovers");
        let at = tree.at(key).unwrap();
        let comes_back = tree.kids()[at].restarts > 0 || self.nodes[node].asked.contains(&key);
        for earlier in (0..at).filter(|_| !comes_back && tree.rules().strategy != Strategy::Pool) {
            match tree.kids()[earlier].state {
                State::Queued => assert!(!tree.needs_are(earlier, is_satisfied), "one was passed over"),
                State::Starting { since } => assert!(self.now >= since + PATIENCE, "one was not waited for"),
                _ => {}
            }
        }
        let kind = match &plan.children.iter().find(|(spec, _)| spec.id == tree.kids()[at].spec.id) {
            Some((_, kind)) => kind.clone(),
            None => Kind::Leaf { up: 1, down: 1, deaf: false, leaves: false },
        };
        self.nodes[node].processes.insert(key, Process { kind: kind.clone(), node: None });
        match kind {
            Kind::Leaf { up, .. } => self.happens(up, node, key, Happening::Ready),
            Kind::Node(plan) => {
                let nested = self.boots(*plan, Some((node, key)));
                if let Some(process) = self.nodes[node].processes.get_mut(&key) {
                    process.node = Some(nested);
                }
                self.happens(1, node, key, Happening::Ready);
            }
        }
    }

    fn term(&mut self, node: usize, key: Key) {
        let Node { tree, processes, .. } = &self.nodes[node];
        let at = tree.at(key).unwrap();
        if tree.rules().strategy != Strategy::Pool && tree.is_leaving() {
            let later = tree.kids()[at + 1..].iter().find(|kid| processes.contains_key(&kid.key));
            assert!(later.is_none(), "{} before {:?}", tree.kids()[at].spec.id, later);
        }
        let process = processes.get(&key).expect("only those that live are told");
        match (&process.kind, process.node) {
            (Kind::Leaf { deaf: true, .. }, _) => {}
            (Kind::Leaf { down, .. }, _) => self.happens(*down, node, key, Happening::Ends(143)),
            (Kind::Node(_), Some(nested)) => self.hears(nested, Event::Stop),
            (Kind::Node(_), None) => {}
        }
    }

    /// A process is gone, whatever it was; below a node all go with it.
    fn dies(&mut self, node: usize, key: Key, code: u8) {
        let Some(process) = self.nodes[node].processes.remove(&key) else { return };
        if let Some(nested) = process.node {
            self.vanishes(nested);
        }
        if let Kind::Leaf { leaves: true, deaf, .. } = process.kind {
            self.nodes[node].left.insert(key, !deaf);
        }
        self.hears(node, Event::Exited(key, code));
    }

    fn vanishes(&mut self, node: usize) {
        self.nodes[node].is_dead = true;
        for process in std::mem::take(&mut self.nodes[node].processes).into_values() {
            if let Some(nested) = process.node {
                self.vanishes(nested);
            }
        }
    }

    fn node_ends(&mut self, node: usize, code: u8) {
        assert!(self.nodes[node].processes.is_empty(), "a node outlives its children");
        self.nodes[node].is_dead = true;
        match self.nodes[node].parent {
            Some((parent, key)) => self.happens(0, parent, key, Happening::Ends(code)),
            None => self.ended = Some(code),
        }
    }

    /// Whatever comes next, before `until`.
    fn goes_on_until(&mut self, until: Instant) -> bool {
        let due = (0..self.nodes.len())
            .filter(|node| !self.nodes[*node].is_dead)
            .filter_map(|node| Some((self.nodes[node].tree.wake()?, node)))
            .min();
        let next = self.later.peek().map(|std::cmp::Reverse((at, ..))| *at);
        match (due, next) {
            (Some((at, node)), next) if at <= until && next.is_none_or(|next| at < next) => {
                self.now = self.now.max(at);
                self.hears(node, Event::Due);
            }
            (_, Some(at)) if at <= until => {
                let std::cmp::Reverse((at, _, node, key, what)) = self.later.pop().expect("just seen");
                self.now = self.now.max(at);
                self.comes(node, key, what);
            }
            _ => {
                self.now = self.now.max(until);
                return false;
            }
        }
        true
    }

    fn comes(&mut self, node: usize, key: Key, what: Happening) {
        match what {
            Happening::Ready if self.nodes[node].processes.contains_key(&key) => {
                self.hears(node, Event::Ready(key));
            }
            Happening::Ends(code) => self.dies(node, key, code),
            Happening::Cleared => {
                self.nodes[node].left.remove(&key);
                self.hears(node, Event::Cleared(key));
            }
            Happening::Ready => {}
        }
    }

    fn goes_on_for(&mut self, time: Duration) {
        let until = self.now + time;
        for _ in 0..100_000 {
            if !self.goes_on_until(until) {
                return;
            }
        }
        panic!("it never gets quiet");
    }

    fn alive(&self) -> Vec<(usize, Key)> {
        let of =
            |(nth, node): (usize, &Node)| node.processes.keys().map(|key| (nth, *key)).collect::<Vec<_>>();
        self.nodes.iter().enumerate().filter(|(_, node)| !node.is_dead).flat_map(of).collect()
    }
}

fn any_leaf() -> impl Made<Value = Kind> {
    (0..200u64, 0..2000u64, prop::bool::weighted(0.1), prop::bool::weighted(0.2))
        .prop_map(|(up, down, deaf, leaves)| Kind::Leaf { up, down, deaf, leaves })
}

fn any_rules() -> impl Made<Value = Rules> {
    let strategy = prop_oneof![
        Just(Strategy::OneForOne),
        Just(Strategy::OneForAll),
        Just(Strategy::RestForOne),
        Just(Strategy::Pool)
    ];
    (strategy, 0..5u32, 1..60u64, 0..3u64).prop_map(|(strategy, max_restarts, window, wait)| Rules {
        strategy,
        max_restarts,
        max_seconds: secs(window),
        wait: secs(wait),
        max_wait: secs(10),
        max_children: 50,
    })
}

fn any_plan() -> impl Made<Value = Plan> {
    let leaf = any_leaf().boxed();
    let kind =
        leaf.prop_recursive(4, 40, 6, |inner| plan_of(inner).prop_map(|plan| Kind::Node(Box::new(plan))));
    plan_of(kind)
}

fn plan_of(kind: impl Made<Value = Kind> + 'static) -> impl Made<Value = Plan> {
    let keep =
        prop_oneof![3 => Just(Keep::Permanent), 2 => Just(Keep::Transient), 1 => Just(Keep::Temporary)];
    let child = (kind, keep, any::<prop::sample::Index>(), prop::bool::weighted(0.3));
    (any_rules(), vec(child, 1..6)).prop_map(|(rules, children)| {
        let spec = |nth: usize, kind: &Kind, keep, need: prop::sample::Index, needs: bool| {
            let shutdown = match kind {
                Kind::Leaf { .. } => secs(3),
                Kind::Node(plan) => plan.longest_stop() + secs(2),
            };
            let needs = if needs && nth > 0 { vec![format!("c{}", need.index(nth))] } else { vec![] };
            Spec { id: format!("c{nth}"), keep, shutdown, leftovers: secs(3), needs }
        };
        let children = children.into_iter().enumerate();
        let children = children.map(|(n, (kind, keep, need, has))| (spec(n, &kind, keep, need, has), kind));
        Plan { rules, children: children.collect() }
    })
}

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    /// Some process ends with this code, out of the blue.
    Ends(prop::sample::Index, u8),
    Asks(prop::sample::Index, prop::sample::Index, u8),
}

fn any_act() -> impl Made<Value = Act> {
    let code = prop_oneof![2 => Just(0u8), 3 => Just(1u8), 2 => Just(137u8), 1 => Just(78u8)];
    prop_oneof![
        3 => (0..20_000u64).prop_map(Act::Pass),
        4 => (any::<prop::sample::Index>(), code).prop_map(|(who, code)| Act::Ends(who, code)),
        1 => (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..5u8)
            .prop_map(|(node, who, what)| Act::Asks(node, who, what)),
    ]
}

impl Machine {
    fn act(&mut self, act: &Act) {
        match act {
            Act::Pass(ms) => self.goes_on_for(Duration::from_millis(*ms)),
            Act::Ends(who, code) => {
                let alive = self.alive();
                if !alive.is_empty() {
                    let (node, key) = alive[who.index(alive.len())];
                    self.dies(node, key, *code);
                }
            }
            Act::Asks(node, who, what) => {
                let node = node.index(self.nodes.len());
                let (tree, now) = (&mut self.nodes[node].tree, self.now);
                let id = match tree.kids().len() {
                    0 => "none".to_owned(),
                    n => tree.kids()[who.index(n)].spec.id.clone(),
                };
                let effects = match what {
                    0 => tree.start(&id, now),
                    1 => tree.stop(&id, now),
                    2 => tree.restart(&id, now),
                    3 => tree.remove(&id, now),
                    _ => {
                        let spec = Spec {
                            shutdown: secs(1),
                            ..child(&format!("n{}", now.elapsed().as_nanos()), Keep::Temporary)
                        };
                        tree.add(spec, now).map(|(_, effects)| effects)
                    }
                };
                if !self.nodes[node].is_dead {
                    let asked = self.nodes[node].tree.named(&id).map(|kid| kid.key);
                    self.nodes[node].asked.extend(asked);
                    self.perform(node, effects.unwrap_or_default());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens(plan in any_plan(), acts in vec(any_act(), 0..40)) {
        let longest = plan.longest_stop() + secs(1);
        let mut machine = Machine::begins(plan);
        for act in &acts {
            machine.act(act);
        }
        if machine.ended.is_none() {
            machine.hears(0, Event::Stop);
            let asked = machine.now;
            machine.goes_on_for(longest);
            prop_assert!(machine.ended.is_some(), "{} s after the stop: {}", (machine.now - asked).as_secs(), machine.nodes[0].tree.kids().len());
        }
        prop_assert_eq!(machine.alive(), vec![]);
    }
}

/// Five nodes deep, two hundred agents in all.
fn deep() -> Plan {
    let leaf = Kind::Leaf { up: 100, down: 200, deaf: false, leaves: false };
    let mut plan: Option<Plan> = None;
    for level in 0..5 {
        let mut children: Vec<(Spec, Kind)> = (0..40)
            .map(|n| {
                (Spec { shutdown: secs(3), ..child(&format!("l{level}-{n}"), Keep::Permanent) }, leaf.clone())
            })
            .collect();
        if let Some(below) = plan.take() {
            let shutdown = below.longest_stop() + secs(2);
            let spec = Spec { shutdown, ..child(&format!("n{level}"), Keep::Permanent) };
            children.push((spec, Kind::Node(Box::new(below))));
        }
        plan = Some(Plan { rules: rules(Strategy::OneForOne), children });
    }
    plan.expect("five of them")
}

#[test]
fn a_deep_tree_starts_and_stops_within_its_times() {
    let mut machine = Machine::begins(deep());
    // One behind the other, a tenth of a second each.
    machine.goes_on_for(Duration::from_millis(200 * 100 + 5));
    assert_eq!(machine.alive().len(), 204);
    assert!(machine.nodes.iter().all(|node| node.tree.is_up()));
    let began = machine.now;
    machine.hears(0, Event::Stop);
    while machine.ended.is_none() && machine.goes_on_until(began + secs(10_000)) {}
    assert_eq!((machine.ended, machine.alive().len()), (Some(0), 0));
    // One behind the other, a fifth of a second each.
    assert_eq!((machine.now - began).as_millis(), 200 * 200);
}
