//! A smooth surface over one cell of a grid.
//!
//! The cell's rectangle is split into two triangles along the diagonal from its lowest to its
//! highest corner. Each triangle carries a Clough-Tocher element: three cubic Bezier triangles that
//! meet in its centroid and join with continuous first derivatives. The gradients at the corners
//! are those that bend the edges least.

/// One cell: rows `y.0..y.1`, columns `z.0..z.1`, and the values at its corners in the order
/// (low, low), (low, high), (high, low), (high, high).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cell {
    pub(crate) y: (f64, f64),
    pub(crate) z: (f64, f64),
    pub(crate) values: [f64; 4],
}

type Vector = [f64; 2];

/// Corners that share an edge with each corner; the diagonal joins 0 and 3.
const NEIGHBOURS: [&[usize]; 4] = [&[1, 2, 3], &[0, 3], &[0, 3], &[0, 1, 2]];

/// Stop when no gradient moves by more than this, relative to its size (absolute below 1).
///
/// The threshold and the order of the sweeps are part of the model: they leave errors of a few
/// millionths in the gradients, which the reference figures contain.
const GRADIENT_TOLERANCE: f64 = 1e-6;
const MAX_SWEEPS: usize = 400;

/// The surface over one [`Cell`], ready to be read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Patch {
    y: (f64, f64),
    z: (f64, f64),
    /// On the side of the corner (low, high), and on that of (high, low).
    elements: [Element; 2],
}

impl Patch {
    pub(crate) fn of(cell: &Cell) -> Self {
        let corners = cell.corners();
        let gradients = cell.gradients(&corners);
        let element = |middle: usize| {
            let triangle = [0, middle, 3];
            Element::new(
                triangle.map(|corner| corners[corner]),
                triangle.map(|corner| cell.values[corner]),
                triangle.map(|corner| gradients[corner]),
            )
        };
        Self {
            y: cell.y,
            z: cell.z,
            elements: [element(1), element(2)],
        }
    }

    /// Value of the surface at (`y`, `z`) in the cell.
    pub(crate) fn at(&self, y: f64, z: f64) -> f64 {
        let share = |(low, high): (f64, f64), x: f64| (x - low) / (high - low);
        let [above, below] = &self.elements;
        let element = if share(self.z, z) >= share(self.y, y) {
            above
        } else {
            below
        };
        element.at([y, z])
    }
}

impl Cell {
    fn corners(&self) -> [Vector; 4] {
        [
            [self.y.0, self.z.0],
            [self.y.0, self.z.1],
            [self.y.1, self.z.0],
            [self.y.1, self.z.1],
        ]
    }

    /// Gradients at the corners that minimise the bending of the cubic Hermite curves along all five
    /// edges, by Gauss-Seidel sweeps from zero.
    fn gradients(&self, corners: &[Vector; 4]) -> [Vector; 4] {
        let springs: [CornerSystem; 4] = std::array::from_fn(|corner| CornerSystem::new(corner, corners));
        let mut gradients = [[0.0; 2]; 4];
        for _ in 0..MAX_SWEEPS {
            let mut largest_change = 0.0_f64;
            for (corner, system) in springs.iter().enumerate() {
                let new = system.solve(corner, &self.values, &gradients);
                let old = gradients[corner];
                let change = (old[0] - new[0]).abs().max((old[1] - new[1]).abs());
                largest_change = largest_change.max(change / new[0].abs().max(new[1].abs()).max(1.0));
                gradients[corner] = new;
            }
            if largest_change < GRADIENT_TOLERANCE {
                break;
            }
        }
        gradients
    }
}

/// The normal equations of the gradient at one corner: how its edges pull on it.
#[derive(Debug, Clone, Copy)]
struct CornerSystem {
    /// To each neighbour: the edge and the cube of its length.
    edges: [(Vector, f64); 3],
    /// The symmetric matrix `sum 4 e e^T / l^3`: xx, xy, yy.
    matrix: [f64; 3],
}

impl CornerSystem {
    fn new(corner: usize, corners: &[Vector; 4]) -> Self {
        let mut system = Self {
            edges: [([0.0; 2], 1.0); 3],
            matrix: [0.0; 3],
        };
        for (slot, &neighbour) in system.edges.iter_mut().zip(NEIGHBOURS[corner]) {
            let edge = difference(corners[neighbour], corners[corner]);
            let length = dot(edge, edge).sqrt();
            let cubed = length * length * length;
            *slot = (edge, cubed);
            system.matrix[0] += 4.0 * edge[0] * edge[0] / cubed;
            system.matrix[1] += 4.0 * edge[0] * edge[1] / cubed;
            system.matrix[2] += 4.0 * edge[1] * edge[1] / cubed;
        }
        system
    }

    fn solve(&self, corner: usize, values: &[f64; 4], gradients: &[Vector; 4]) -> Vector {
        let mut pull = [0.0; 2];
        for ((edge, cubed), &neighbour) in self.edges.iter().zip(NEIGHBOURS[corner]) {
            let rise = 6.0 * (values[neighbour] - values[corner]) - 2.0 * dot(*edge, gradients[neighbour]);
            let strength = rise / cubed;
            pull[0] += strength * edge[0];
            pull[1] += strength * edge[1];
        }
        let [xx, xy, yy] = self.matrix;
        let determinant = xx * yy - xy * xy;
        [
            (yy * pull[0] - xy * pull[1]) / determinant,
            (xx * pull[1] - xy * pull[0]) / determinant,
        ]
    }
}

/// A Clough-Tocher element on one triangle, by the Bezier ordinates of its three sub-triangles.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Element {
    /// The last corner, and the other two and the point asked for are seen from there.
    origin: Vector,
    sides: [Vector; 2],
    corner: [f64; 3],
    /// A third of the way from each corner to the next one, and to the one before.
    to_next: [f64; 3],
    to_previous: [f64; 3],
    /// A third of the way from each corner to the centroid.
    inner: [f64; 3],
    /// In the middle of each sub-triangle, named by the corner opposite to its outer edge.
    middle: [f64; 3],
    /// Two thirds of the way from each corner to the centroid.
    near: [f64; 3],
    centroid: f64,
}

impl Element {
    fn new(corners: [Vector; 3], corner: [f64; 3], gradients: [Vector; 3]) -> Self {
        let edge =
            |from: usize, to: usize| corner[from] + dot(gradients[from], difference(corners[to], corners[from])) / 3.0;
        let to_next: [f64; 3] = std::array::from_fn(|i| edge(i, next(i)));
        let to_previous: [f64; 3] = std::array::from_fn(|i| edge(i, previous(i)));
        let inner: [f64; 3] = std::array::from_fn(|i| (corner[i] + to_next[i] + to_previous[i]) / 3.0);
        // The derivative across every edge is made linear along it. This one formula holds for the
        // diagonal as well as for the boundary, because the two triangles of a rectangle mirror each other.
        let middle: [f64; 3] = std::array::from_fn(|opposite| {
            let (from, to) = (next(opposite), previous(opposite));
            let sag = to_next[from] + to_previous[to] - corner[from] - corner[to];
            f64::midpoint(inner[from], inner[to]) + sag / 4.0
        });
        let near: [f64; 3] = std::array::from_fn(|i| (middle[next(i)] + middle[previous(i)] + inner[i]) / 3.0);
        Self {
            origin: corners[2],
            sides: [difference(corners[0], corners[2]), difference(corners[1], corners[2])],
            corner,
            to_next,
            to_previous,
            inner,
            middle,
            near,
            centroid: (near[0] + near[1] + near[2]) / 3.0,
        }
    }

    fn at(&self, point: Vector) -> f64 {
        // Less the smallest of them, the barycentric coordinates are those of the sub-triangle that
        // holds the point; three times the smallest is the centroid's.
        let outer = self.barycentric(point);
        let least = outer[0].min(outer[1]).min(outer[2]);
        let share = outer.map(|share| share - least);
        let centre = 3.0 * least;
        let mut sum = centre * centre * centre * self.centroid;
        for i in 0..3 {
            let (j, k) = (next(i), previous(i));
            let square = share[i] * share[i];
            let beside = share[j] * self.to_next[i] + share[k] * self.to_previous[i] + centre * self.inner[i];
            sum += square * share[i] * self.corner[i];
            sum += 3.0 * square * beside;
            sum += 6.0 * centre * share[j] * share[k] * self.middle[i];
            sum += 3.0 * centre * centre * share[i] * self.near[i];
        }
        sum
    }

    fn barycentric(&self, point: Vector) -> [f64; 3] {
        let [p, q] = self.sides;
        let at = difference(point, self.origin);
        let area = cross(p, q);
        let (first, second) = (cross(at, q) / area, cross(p, at) / area);
        [first, second, 1.0 - first - second]
    }
}

const fn next(corner: usize) -> usize {
    (corner + 1) % 3
}

const fn previous(corner: usize) -> usize {
    (corner + 2) % 3
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

fn difference(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1]]
}

/// Twice the signed area of the parallelogram of two vectors.
fn cross(a: Vector, b: Vector) -> f64 {
    a[0] * b[1] - a[1] * b[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(surface: impl Fn(f64, f64) -> f64) -> Cell {
        let (y, z) = ((2.0, 5.0), (10.0, 17.0));
        let values = [
            surface(y.0, z.0),
            surface(y.0, z.1),
            surface(y.1, z.0),
            surface(y.1, z.1),
        ];
        Cell { y, z, values }
    }

    #[test]
    fn planes_are_reproduced() {
        let plane = |y: f64, z: f64| 3.0 + 0.25 * y - 0.5 * z;
        for (y, z) in [(2.5, 11.0), (4.9, 10.1), (3.5, 13.5), (2.1, 16.9)] {
            // The gradients are accurate to the tolerance of the sweeps only.
            assert!((Patch::of(&cell(plane)).at(y, z) - plane(y, z)).abs() < 1e-4);
        }
    }

    #[test]
    fn corners_are_met_and_the_diagonal_is_seamless() {
        let cell = cell(|y, z| y * y + y * z);
        let patch = Patch::of(&cell);
        assert!((patch.at(2.0, 17.0) - cell.values[1]).abs() < 1e-9);
        assert!((patch.at(5.0, 10.0) - cell.values[2]).abs() < 1e-9);
        let (above, below) = (patch.at(3.5, 13.5 + 1e-9), patch.at(3.5, 13.5 - 1e-9));
        assert!((above - below).abs() < 1e-6);
    }
}
