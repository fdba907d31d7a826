//! Charts as PNG images, created without a browser.

use std::sync::Arc;

use pktgen_core::{Error, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use super::file::{FONTS, standalone_in};
use crate::chart::Chart;

/// Pixels per unit of a chart.
const ZOOM: f32 = 2.0;

/// Draws PNG images with a font of this host.
pub struct Painter {
    options: Options<'static>,
    font: String,
}

impl Painter {
    /// Searches for fonts; fails if there is none, since images without text are useless.
    pub fn new() -> Result<Painter> {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        Painter::with(fonts)
    }

    fn with(fonts: Database) -> Result<Painter> {
        let has = |name: &&&str| fonts.faces().any(|face| face.families.iter().any(|(family, _)| family == **name));
        let known = FONTS.iter().find(has).map(|name| (*name).to_owned());
        let any = || fonts.faces().find_map(|face| Some(face.families.first()?.0.clone()));
        let Some(font) = known.or_else(any) else {
            return Err(Error::Host(
                "PNG pictures need a font and this host has none: install one (Debian: apt install fonts-dejavu-core), or \
                 write SVG only: --plots-format svg"
                    .to_owned(),
            ));
        };
        let options = Options { font_family: font.clone(), fontdb: Arc::new(fonts), ..Default::default() };
        Ok(Painter { options, font })
    }

    /// Returns the chart as the bytes of a PNG file.
    pub fn paint(&self, chart: &Chart) -> Result<Vec<u8>> {
        let failed = |what: String| Error::Invalid(format!("drawing \"{}\" as PNG: {what}", chart.title));
        let svg = standalone_in(chart, &format!("'{}'", self.font.replace('\'', "")));
        let tree = Tree::from_str(&svg, &self.options).map_err(|fault| failed(fault.to_string()))?;
        let size = tree.size();
        let (width, height) = ((size.width() * ZOOM).ceil() as u32, (size.height() * ZOOM).ceil() as u32);
        let mut pixels =
            Pixmap::new(width, height).ok_or_else(|| failed(format!("{width} × {height} pixels are too many")))?;
        resvg::render(&tree, Transform::from_scale(ZOOM, ZOOM), &mut pixels.as_mut());
        pixels.encode_png().map_err(|fault| failed(fault.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Kind, Series};
    use pktgen_testing::{Need, skip};

    fn chart() -> Chart {
        let points = vec![(0.0, 1.0), (1.0, 3.0), (2.0, 2.0)];
        let series = Series { name: "line".to_owned(), points, ..Default::default() };
        let x = ("x".to_owned(), "");
        Chart {
            kind: Kind::Line,
            title: "A title".to_owned(),
            x: x.clone(),
            y: x,
            series: vec![series],
            ..Default::default()
        }
    }

    #[test]
    fn a_host_without_fonts_is_told() {
        let Err(fault) = Painter::with(Database::new()) else { panic!("there is no font") };
        assert!(fault.to_string().contains("apt install fonts-dejavu-core"), "{fault}");
    }

    #[test]
    fn pictures_have_lines_and_text() {
        let Ok(painter) = Painter::new() else {
            return skip(Need::Fonts, "pictures with text", "this host has no font");
        };
        let picture = Pixmap::decode_png(&painter.paint(&chart()).unwrap()).unwrap();
        let dark = |from: u32, to: u32| {
            let rows = picture.pixels().chunks(picture.width() as usize).skip(from as usize).take((to - from) as usize);
            rows.flatten().filter(|pixel| pixel.red() < 128).count()
        };
        // The title is in the first lines and the plot below it; both contain dark pixels.
        assert!(dark(20, 60) > 100, "{}", dark(20, 60));
        assert!(dark(80, picture.height()) > 500);
    }
}
