//! The kinds of joins, and their constraints: the only place that lists the operators of the parser.

use sqlparser::ast::{JoinConstraint, JoinOperator};

/// What a join does with rows without a partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Semi,
    Anti,
    /// A semi or anti join that has rows of the joined table.
    RightSemiOrAnti,
    Cross,
    Other,
}

impl JoinKind {
    /// Whether columns of the joined table exist in ON only.
    pub(crate) fn hides(self) -> bool {
        matches!(self, JoinKind::Semi | JoinKind::Anti)
    }

    /// Whether the join adds rows of the joined table without a partner.
    pub(crate) fn adds_rows(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }
}

/// What [`parts`] returns, of a reference that may be mutable.
macro_rules! parts {
    ($join:expr) => {
        match $join {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (JoinKind::Inner, Some(constraint)),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (JoinKind::Left, Some(constraint)),
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (JoinKind::Right, Some(constraint))
            }
            JoinOperator::FullOuter(constraint) => (JoinKind::Full, Some(constraint)),
            JoinOperator::Semi(constraint) | JoinOperator::LeftSemi(constraint) => (JoinKind::Semi, Some(constraint)),
            JoinOperator::Anti(constraint) | JoinOperator::LeftAnti(constraint) => (JoinKind::Anti, Some(constraint)),
            JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => (JoinKind::RightSemiOrAnti, None),
            JoinOperator::CrossJoin(_) => (JoinKind::Cross, None),
            _ => (JoinKind::Other, None),
        }
    };
}

/// Returns the kind of a join, and its constraint unless it is one of those that are not understood.
pub(crate) fn parts(join: &JoinOperator) -> (JoinKind, Option<&JoinConstraint>) {
    parts!(join)
}

/// As [`parts`].
pub(crate) fn parts_mut(join: &mut JoinOperator) -> (JoinKind, Option<&mut JoinConstraint>) {
    parts!(join)
}
