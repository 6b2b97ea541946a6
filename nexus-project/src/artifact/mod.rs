//! Planning artifacts: milestones, slices and tasks as Markdown files with a lint.
