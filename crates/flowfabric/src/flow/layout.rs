//! Where the tasks of a drawn flow are: in columns by rank, each right of all that it waits for, in
//! an order that lets few edges cross.

use super::graph::Edge;

/// How often the order and then the heights of the columns are made better.
const SWEEPS: usize = 8;
/// Long edges are led around what is between by bends; with more of them, they go straight.
const BENDS_MAX: usize = 20_000;
/// How much room a task and a bend have, from the middle of one to that of the next.
const TASK_HEIGHT: f64 = 60.0;
const BEND_HEIGHT: f64 = 14.0;

/// The places of tasks and bends. Tasks come first, by their places among the members.
pub(super) struct Layout {
    /// The column of each.
    pub(super) columns: Vec<usize>,
    /// The middle of each, from the top.
    pub(super) heights: Vec<f64>,
    /// For each edge, what it goes through: its upstream, its bends, its downstream.
    pub(super) paths: Vec<Vec<usize>>,
    tasks: usize,
}

impl Layout {
    /// Lays out so many tasks.
    pub(super) fn of(tasks: usize, edges: &[Edge]) -> Self {
        let columns = ranks(tasks, edges);
        let mut layout = Self { columns, heights: Vec::new(), paths: Vec::new(), tasks };
        layout.bend(edges);
        let neighbours = layout.neighbours();
        let mut order = layout.in_columns();
        layout.heights = layout.stacked(&order);
        for _ in 0..SWEEPS {
            layout.sort(&mut order, &neighbours.left, &neighbours.right);
        }
        for _ in 0..SWEEPS {
            layout.settle(&order, &neighbours.left, false);
            layout.settle(&order, &neighbours.right, true);
        }
        layout.move_to_top();
        layout
    }

    /// How many columns there are.
    pub(super) fn width(&self) -> usize {
        self.columns.iter().max().map_or(0, |last| last + 1)
    }

    /// The middle of the lowest.
    pub(super) fn depth(&self) -> f64 {
        self.heights.iter().copied().fold(0.0, f64::max)
    }

    /// Gives every edge a bend in each column that it only passes.
    fn bend(&mut self, edges: &[Edge]) {
        let between = |edge: &Edge| self.columns[edge.up] + 1..self.columns[edge.down];
        let straight = edges.iter().map(|edge| between(edge).len()).sum::<usize>() > BENDS_MAX;
        let passed: Vec<_> = edges.iter().map(between).collect();
        for (edge, passed) in edges.iter().zip(passed) {
            let mut path = vec![edge.up];
            for column in passed.filter(|_| !straight) {
                path.push(self.columns.len());
                self.columns.push(column);
            }
            path.push(edge.down);
            self.paths.push(path);
        }
    }

    fn neighbours(&self) -> Neighbours {
        let none = vec![Vec::new(); self.columns.len()];
        let mut neighbours = Neighbours { left: none.clone(), right: none };
        for step in self.paths.iter().flat_map(|path| path.windows(2)) {
            neighbours.left[step[1]].push(step[0]);
            neighbours.right[step[0]].push(step[1]);
        }
        neighbours
    }

    /// What is in each column.
    fn in_columns(&self) -> Vec<Vec<usize>> {
        let mut order = vec![Vec::new(); self.width()];
        self.columns.iter().enumerate().for_each(|(item, column)| order[*column].push(item));
        order
    }

    /// Heights one below the other.
    fn stacked(&self, order: &[Vec<usize>]) -> Vec<f64> {
        let mut heights = vec![0.0; self.columns.len()];
        for column in order {
            for pair in column.windows(2) {
                heights[pair[1]] = heights[pair[0]] + self.apart(pair[0], pair[1]);
            }
        }
        heights
    }

    fn apart(&self, one: usize, other: usize) -> f64 {
        let room = |item| if item < self.tasks { TASK_HEIGHT } else { BEND_HEIGHT };
        f64::midpoint(room(one), room(other))
    }

    /// Puts each near those it is connected to, once from the left and once from the right.
    fn sort(&mut self, order: &mut [Vec<usize>], left: &[Vec<usize>], right: &[Vec<usize>]) {
        for column in order.iter_mut() {
            self.sort_column(column, left);
        }
        for column in order.iter_mut().rev() {
            self.sort_column(column, right);
        }
    }

    fn sort_column(&mut self, column: &mut [usize], neighbours: &[Vec<usize>]) {
        column.sort_by(|one, other| {
            self.wanted(*one, neighbours).total_cmp(&self.wanted(*other, neighbours))
        });
        let mut height = 0.0;
        for at in 0..column.len() {
            if at > 0 {
                height += self.apart(column[at - 1], column[at]);
            }
            self.heights[column[at]] = height;
        }
    }

    /// The height at which its edges would be straight.
    fn wanted(&self, item: usize, neighbours: &[Vec<usize>]) -> f64 {
        match &neighbours[item][..] {
            [] => self.heights[item],
            some => some.iter().map(|other| self.heights[*other]).sum::<f64>() / some.len() as f64,
        }
    }

    /// Moves each as near to where it wants to be as the others of its column let it: the middle
    /// between being pushed down by those above and up by those below.
    fn settle(&mut self, order: &[Vec<usize>], neighbours: &[Vec<usize>], from_right: bool) {
        let columns: Vec<&Vec<usize>> =
            if from_right { order.iter().rev().collect() } else { order.iter().collect() };
        for column in columns {
            let wanted: Vec<f64> =
                column.iter().map(|item| self.wanted(*item, neighbours)).collect();
            let (mut down, mut up) = (wanted.clone(), wanted);
            for at in 1..column.len() {
                down[at] = down[at].max(down[at - 1] + self.apart(column[at - 1], column[at]));
            }
            for at in (1..column.len()).rev() {
                up[at - 1] = up[at - 1].min(up[at] - self.apart(column[at - 1], column[at]));
            }
            for (at, item) in column.iter().enumerate() {
                self.heights[*item] = f64::midpoint(down[at], up[at]);
            }
        }
    }

    fn move_to_top(&mut self) {
        let top = self.heights.iter().copied().fold(f64::INFINITY, f64::min);
        self.heights.iter_mut().for_each(|height| *height -= top);
    }
}

/// What each is connected to in the columns beside it.
struct Neighbours {
    left: Vec<Vec<usize>>,
    right: Vec<Vec<usize>>,
}

/// The length of the longest way to each task.
fn ranks(tasks: usize, edges: &[Edge]) -> Vec<usize> {
    let (mut waits, mut frees) = (vec![0_usize; tasks], vec![Vec::new(); tasks]);
    for edge in edges {
        waits[edge.down] += 1;
        frees[edge.up].push(edge.down);
    }
    let mut ranks = vec![0; tasks];
    let mut free: Vec<usize> = (0..tasks).filter(|place| waits[*place] == 0).collect();
    while let Some(place) = free.pop() {
        for &down in &frees[place] {
            ranks[down] = ranks[down].max(ranks[place] + 1);
            waits[down] -= 1;
            if waits[down] == 0 {
                free.push(down);
            }
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::super::graph::sketch::graph;
    use super::*;

    fn layout(names: &str, edges: &str) -> Layout {
        let graph = graph(names, edges);
        Layout::of(graph.members.len(), &graph.edges)
    }

    #[test]
    fn everybody_is_right_of_all_it_waits_for() {
        let diamond = layout("a b c d e", "a>b a>c b>d c>d d>e a>e");
        assert_eq!(diamond.columns[..5], [0, 1, 1, 2, 3]);
        assert_eq!(diamond.paths[5].len(), 4, "the long edge has a bend in each column");
    }

    #[test]
    fn nothing_in_a_column_lies_on_another() {
        let edges: Vec<String> = (0..40).map(|at| format!("t{}>t{}", at / 3, at + 1)).collect();
        let names: Vec<String> = (0..41).map(|at| format!("t{at}")).collect();
        let tree = layout(&names.join(" "), &edges.join(" "));
        for column in tree.in_columns() {
            let mut heights: Vec<f64> = column.iter().map(|item| tree.heights[*item]).collect();
            heights.sort_by(f64::total_cmp);
            assert!(heights.windows(2).all(|two| two[1] - two[0] > TASK_HEIGHT - 0.001));
        }
    }

    #[test]
    fn edges_that_need_not_cross_do_not() {
        let crossed = layout("a b x y", "a>y b>x");
        let [a, b, x, y] = [0, 1, 2, 3].map(|place| crossed.heights[place]);
        assert!((a < b) == (y < x), "{:?}", crossed.heights);
    }
}
