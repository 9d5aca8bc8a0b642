//! Plots as SVG, all in one style.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
pub use plotters::prelude::SeriesLabelPosition;
use plotters::prelude::*;

/// What can go wrong while one is drawn into a string: nothing that a caller could mend.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A line of a chart.
pub struct Line {
    /// Its name in the legend; none if it is empty.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Which colour of [`COLOURS`].
    pub colour: usize,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Whether its points are marked.
    pub marked: bool,
}

/// Axes of a chart: from 0 to the largest value, with its title and unit.
pub struct Axes<'a> {
    /// What the chart shows.
    pub title: &'a str,
    /// Horizontal: title and largest value.
    pub x: (&'a str, f64),
    /// Vertical: title and largest value.
    pub y: (&'a str, f64),
    /// Where the legend is.
    pub legend: SeriesLabelPosition,
    /// Names of 0, 1, 2 … on the horizontal axis, where it has names and not numbers.
    pub names: &'a [String],
}

/// Draws into an SVG of this size.
pub fn svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    // A file ends with the end of a line.
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

/// Draws a chart.
pub fn chart<'a>(area: &Area<'a>, axes: &Axes<'_>, lines: &[Line]) -> Result<()> {
    // Names stand below their points, with as much room at both ends.
    let (left, right) = if axes.names.is_empty() { (0.0, axes.x.1) } else { (-0.3, axes.x.1 + 0.3) };
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(24)
        .caption(axes.title, (FONT, 17))
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right, 0.0..axes.y.1)?;
    let name = |x: &f64| {
        let place = x.round();
        let is_point = (x - place).abs() < 1e-6 && place >= 0.0;
        axes.names.get(place as usize).filter(|_| is_point).cloned().unwrap_or_default()
    };
    let number = |value: &f64| if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.1}") };
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(axes.x.0)
        .y_desc(axes.y.0)
        .axis_desc_style((FONT, 15))
        .label_style((FONT, 13))
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .y_label_formatter(&number)
        .y_labels(6);
    if axes.names.is_empty() {
        mesh.x_labels(11).x_label_formatter(&number).draw()?;
    } else {
        mesh.x_labels(axes.names.len() + 1).x_label_formatter(&name).draw()?;
    }
    for line in lines {
        let colour = COLOURS[line.colour % COLOURS.len()];
        let style = colour.stroke_width(2);
        let points = line.points.iter().copied();
        let drawn = match line.dashed {
            true => chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?,
            false => chart.draw_series(LineSeries::new(points, style))?,
        };
        if !line.name.is_empty() {
            let dashed = line.dashed;
            drawn.label(&line.name).legend(move |(x, y)| sample_of(style, dashed, x, y));
        }
        if line.marked {
            chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
        }
    }
    if lines.iter().any(|line| !line.name.is_empty()) {
        chart
            .configure_series_labels()
            .position(axes.legend.clone())
            .margin(12)
            .label_font((FONT, 13))
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .draw()?;
    }
    Ok(())
}

/// A line's sample in the legend.
fn sample_of<'a>(
    style: ShapeStyle,
    dashed: bool,
    x: i32,
    y: i32,
) -> DynElement<'static, SVGBackend<'a>, (i32, i32)> {
    let ends = [(x, y), (x + 20, y)];
    match dashed {
        true => DashedPathElement::new(ends, 5, 3, style).into_dyn(),
        false => PathElement::new(ends, style).into_dyn(),
    }
}

/// Okabe and Ito's colours, which people tell apart who see fewer.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(150, 110, 60),
];

const FONT: &str = "sans-serif";
