//! The dense models of synchronous training, by their tensors.
//!
//! Trio §6.1, Table 1 names ResNet50, VGG11 and DenseNet161; AlexNet is the fourth that aggregation papers like to
//! use. A model is known by what its architecture says: the code below walks the layers as the usual implementations
//! define them, so that the counts follow from a few numbers of the architecture. Called by the workload `dense`.

use crate::registry::Named;

/// One tensor of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Name, as the implementations call it.
    pub name: String,
    /// Elements.
    pub elements: u64,
}

/// A model that can be asked for its tensors.
#[derive(Debug)]
pub struct DenseModel {
    name: &'static str,
    about: &'static str,
    make: fn(&mut Tensors),
    made_of_parameters: bool,
}

impl Named for DenseModel {
    fn name(&self) -> &'static str {
        self.name
    }
    fn about(&self) -> &'static str {
        self.about
    }
}

impl DenseModel {
    /// Its tensors, in the order of their definition; a custom model is one tensor of `parameters` elements, every
    /// other ignores them.
    pub fn tensors(&self, parameters: u64) -> Vec<Tensor> {
        let mut tensors = Tensors { list: Vec::new(), parameters };
        (self.make)(&mut tensors);
        tensors.list
    }

    /// Elements of all its tensors.
    pub fn elements(&self, parameters: u64) -> u64 {
        self.tensors(parameters).iter().map(|tensor| tensor.elements).sum()
    }

    /// Whether the experiment gives its number of parameters.
    pub(crate) fn needs_parameters(&self) -> bool {
        self.made_of_parameters
    }
}

/// Every model, by name.
pub static MODELS: &[&DenseModel] = &[
    &DenseModel { name: "resnet50", about: "ResNet50: 161 tensors, 25.6 M", make: resnet50, made_of_parameters: false },
    &DenseModel { name: "vgg11", about: "VGG11: 22 tensors, 132.9 M", make: vgg11, made_of_parameters: false },
    &DenseModel {
        name: "densenet161",
        about: "DenseNet161: 484 tensors, 28.7 M",
        make: densenet161,
        made_of_parameters: false,
    },
    &DenseModel { name: "alexnet", about: "AlexNet: 16 tensors, 61.1 M", make: alexnet, made_of_parameters: false },
    &DenseModel {
        name: "custom",
        about: "one tensor of workload.parameters elements",
        make: |tensors| tensors.add("parameters", tensors.parameters),
        made_of_parameters: true,
    },
];

/// Tensors being listed.
struct Tensors {
    list: Vec<Tensor>,
    parameters: u64,
}

impl Tensors {
    fn add(&mut self, name: impl Into<String>, elements: u64) {
        self.list.push(Tensor { name: name.into(), elements });
    }

    /// A convolution without bias: `outputs` filters of `side` × `side` over `inputs` channels.
    fn convolution(&mut self, name: &str, inputs: u64, outputs: u64, side: u64) {
        self.add(format!("{name}.weight"), inputs * outputs * side * side);
    }

    /// A normalisation over `channels`: a factor and an offset each.
    fn normalisation(&mut self, name: &str, channels: u64) {
        self.add(format!("{name}.weight"), channels);
        self.add(format!("{name}.bias"), channels);
    }

    /// A layer with weights and one bias per output.
    fn biased(&mut self, name: &str, weights: u64, outputs: u64) {
        self.add(format!("{name}.weight"), weights);
        self.add(format!("{name}.bias"), outputs);
    }

    fn linear(&mut self, name: &str, inputs: u64, outputs: u64) {
        self.biased(name, inputs * outputs, outputs);
    }
}

/// Four stages of bottleneck blocks; the first block of each has a projection beside it.
fn resnet50(t: &mut Tensors) {
    t.convolution("conv1", 3, 64, 7);
    t.normalisation("bn1", 64);
    let mut inputs = 64;
    for (stage, (blocks, planes)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate() {
        for block in 0..blocks {
            let name = |part: &str| format!("layer{}.{block}.{part}", stage + 1);
            let layers = [(inputs, planes, 1), (planes, planes, 3), (planes, 4 * planes, 1)];
            for (i, (from, to, side)) in layers.into_iter().enumerate() {
                t.convolution(&name(&format!("conv{}", i + 1)), from, to, side);
                t.normalisation(&name(&format!("bn{}", i + 1)), to);
            }
            if block == 0 {
                t.convolution(&name("downsample.0"), inputs, 4 * planes, 1);
                t.normalisation(&name("downsample.1"), 4 * planes);
            }
            inputs = 4 * planes;
        }
    }
    t.linear("fc", inputs, 1000);
}

/// Eight convolutions of 3 × 3 with bias, five poolings (0), then three full layers on 7 × 7 pixels.
fn vgg11(t: &mut Tensors) {
    let (mut inputs, mut at) = (3, 0);
    for outputs in [64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0] {
        if outputs == 0 {
            at += 1;
            continue;
        }
        t.biased(&format!("features.{at}"), inputs * outputs * 9, outputs);
        inputs = outputs;
        // An activation follows each convolution.
        at += 2;
    }
    t.linear("classifier.0", inputs * 7 * 7, 4096);
    t.linear("classifier.3", 4096, 4096);
    t.linear("classifier.6", 4096, 1000);
}

/// Dense blocks that grow by 48 channels per layer, each layer through a bottleneck of four times as many; a
/// transition halves the channels between blocks.
fn densenet161(t: &mut Tensors) {
    const GROWTH: u64 = 48;
    let mut channels = 2 * GROWTH;
    t.convolution("features.conv0", 3, channels, 7);
    t.normalisation("features.norm0", channels);
    for (block, layers) in [6, 12, 36, 24].into_iter().enumerate() {
        if block > 0 {
            let name = |part: &str| format!("features.transition{block}.{part}");
            t.normalisation(&name("norm"), channels);
            t.convolution(&name("conv"), channels, channels / 2, 1);
            channels /= 2;
        }
        for layer in 1..=layers {
            let name = |part: &str| format!("features.denseblock{}.denselayer{layer}.{part}", block + 1);
            t.normalisation(&name("norm1"), channels);
            t.convolution(&name("conv1"), channels, 4 * GROWTH, 1);
            t.normalisation(&name("norm2"), 4 * GROWTH);
            t.convolution(&name("conv2"), 4 * GROWTH, GROWTH, 3);
            channels += GROWTH;
        }
    }
    t.normalisation("features.norm5", channels);
    t.linear("classifier", channels, 1000);
}

/// Five convolutions with bias, then three full layers on 6 × 6 pixels.
fn alexnet(t: &mut Tensors) {
    let layers = [(0, 3, 64, 11), (3, 64, 192, 5), (6, 192, 384, 3), (8, 384, 256, 3), (10, 256, 256, 3)];
    for (at, inputs, outputs, side) in layers {
        t.biased(&format!("features.{at}"), inputs * outputs * side * side, outputs);
    }
    t.linear("classifier.1", 256 * 6 * 6, 4096);
    t.linear("classifier.4", 4096, 4096);
    t.linear("classifier.6", 4096, 1000);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use std::collections::HashSet;

    /// Name, tensors, elements, largest, percent of tensors below 1024, packets at 64, 256 and 1024.
    type Row = (&'static str, usize, u64, u64, u64, [u64; 3]);

    #[test]
    fn models_have_the_tensors_of_their_architectures() {
        let rows: [Row; 4] = [
            ("resnet50", 161, 25_557_032, 2_359_296, 53, [399_329, 99_833, 24_959]),
            ("vgg11", 22, 132_863_336, 102_760_448, 41, [2_075_990, 518_998, 129_750]),
            ("densenet161", 484, 28_681_000, 2_230_272, 47, [448_141, 112_036, 28_009]),
            ("alexnet", 16, 61_100_840, 37_748_736, 38, [954_701, 238_676, 59_669]),
        ];
        for (name, count, elements, largest, small, packets) in rows {
            let model = find(MODELS, "model", name, "here").unwrap();
            let tensors = model.tensors(7);
            assert_eq!(tensors.len(), count, "{name}");
            assert_eq!(model.elements(7), elements, "{name}");
            assert_eq!(tensors.iter().map(|t| t.elements).max(), Some(largest), "{name}");
            let below = tensors.iter().filter(|t| t.elements < 1024).count() as f64 / count as f64;
            assert_eq!((below * 100.0).round() as u64, small, "{name}: {below}");
            assert_eq!([64, 256, 1024].map(|n| elements.div_ceil(n)), packets, "{name}");
            let names: HashSet<_> = tensors.iter().map(|t| &t.name).collect();
            assert_eq!(names.len(), count, "{name}: two tensors have one name");
            assert!(!model.needs_parameters());
        }
    }

    #[test]
    fn sizes_are_those_of_table_1() {
        // In MiB, although the table says MB.
        for (name, size) in [("resnet50", 98u32), ("vgg11", 507), ("densenet161", 109)] {
            let bytes = find(MODELS, "model", name, "here").unwrap().elements(0) * 4;
            assert!((bytes as f64 / 1_048_576.0 - f64::from(size)).abs() < 0.6, "{name}: {bytes}");
        }
    }

    #[test]
    fn a_custom_model_is_one_tensor() {
        let custom = find(MODELS, "model", "custom", "here").unwrap();
        assert!(custom.needs_parameters());
        assert_eq!(custom.tensors(77), [Tensor { name: "parameters".into(), elements: 77 }]);
    }

    #[test]
    fn some_tensors_by_name() {
        for (model, name, elements) in [
            ("resnet50", "layer3.5.conv2.weight", 256 * 256 * 9),
            ("resnet50", "layer4.0.downsample.0.weight", 1024 * 2048),
            ("vgg11", "features.18.weight", 512 * 512 * 9),
            ("densenet161", "features.denseblock4.denselayer24.conv1.weight", 2160 * 192),
            ("densenet161", "classifier.weight", 2208 * 1000),
            ("alexnet", "classifier.1.weight", 9216 * 4096),
        ] {
            let tensors = find(MODELS, "model", model, "here").unwrap().tensors(0);
            let found = tensors.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("{model} has no {name}"));
            assert_eq!(found.elements, elements, "{name}");
        }
    }
}
