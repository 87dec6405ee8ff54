#include "stages/worker/export_convolutional.h"

#include <variant>
#include <vector>

#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/preprocessor_config.h"
#include "stages/weights/safetensors.h"
#include "stages/worker/export_readme.h"
#include "stages/worker/network_of_run.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

constexpr std::int64_t kSqueezeOfTimm = 16;

void write_text(const fs::path& file, const Json& json) {
  runner::write_atomically(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// How timm creates the backbone: the name of a function, and its arguments.
struct TimmModel {
  std::string architecture;
  Json arguments = Json::object();
  std::string first_convolution, classifier;  // module names
};

TimmModel timm_resnet(const ResNetOptions& resnet) {
  constexpr std::int64_t kDepths[] = {18, 34};
  const bool is_known = std::ranges::find(kDepths, resnet.depth) != std::end(kDepths);
  if (!is_known || resnet.stem != ResNetStem::kImageNet) {
    throw StageError(ErrorCode::kOptionConflict, "timm has no ResNet with this depth and stem")
        .with_help("export a model with depth: 18 or 34 and stem: imagenet");
  }
  return {"resnet" + std::to_string(resnet.depth), Json::object(), "conv1", "fc"};
}

TimmModel timm_model(const ConvolutionalClassifierConfig& config) {
  if (const auto* resnet = std::get_if<ResNetOptions>(&config.backbone))
    return timm_resnet(*resnet);
  if (std::holds_alternative<ConvNetworkOptions>(config.backbone)) {
    throw StageError(ErrorCode::kOptionConflict,
                     "no library provides the network of the backbone kind conv")
        .with_help("its weights are in the run's checkpoints, in nodes/train/checkpoints");
  }
  const auto* bottleneck = std::get_if<BottleneckOptions>(&config.backbone);
  if (!bottleneck) {
    const bool is_dense = std::holds_alternative<DenseOptions>(config.backbone);
    return {config.name, Json::object(), is_dense ? "features.conv0" : "conv_stem", "classifier"};
  }
  const bool has_gates = bottleneck->squeeze_ratio > 0;
  if (has_gates && bottleneck->squeeze_ratio != kSqueezeOfTimm) {
    throw StageError(ErrorCode::kOptionConflict,
                     "timm's gates have one channel per " + std::to_string(kSqueezeOfTimm) +
                         " of their block, but this model's gates have one per " +
                         std::to_string(bottleneck->squeeze_ratio))
        .with_help("export a model with squeeze_ratio: " + std::to_string(kSqueezeOfTimm));
  }
  return {has_gates ? "seresnext50_32x4d" : "resnet50",
          {{"layers", bottleneck->layers},
           {"cardinality", bottleneck->cardinality},
           {"base_width", bottleneck->base_width}},
          "conv1",
          "fc"};
}

Json config_of_timm(const TimmModel& timm, std::int64_t outputs, std::int64_t channels,
                    const ImageDatasetOptions& transform) {
  Json config = {{"architecture", timm.architecture},
                 {"num_classes", outputs},
                 {"num_features", channels},
                 {"global_pool", "avg"},
                 {"model_args", timm.arguments},
                 {"pretrained_cfg",
                  {{"num_classes", outputs},
                   {"input_size", {3, transform.image_size, transform.image_size}},
                   {"first_conv", timm.first_convolution},
                   {"classifier", timm.classifier}}}};
  config["pretrained_cfg"].update(timm_preprocessing(transform));
  return config;
}

NamedTensors values_of(const torch::nn::Module& module, const std::string& prefix) {
  NamedTensors values;
  for (const auto& weights : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& item : weights)
      values.set(prefix + item.key(), item.value().detach().cpu().contiguous());
  }
  return values;
}

/// Returns "torch.nn.Sequential(…)" with the same weight names as the head.
std::string head_in_python(const std::vector<std::int64_t>& widths, std::int64_t channels,
                           std::int64_t outputs) {
  std::string text = "torch.nn.Sequential(\n";
  std::int64_t in = channels;
  const auto linear = [&](std::int64_t out) {
    text += "    torch.nn.Dropout(), torch.nn.Linear(" + std::to_string(in) + ", " +
            std::to_string(out) + ")";
    in = out;
  };
  for (const std::int64_t width : widths) {
    linear(width);
    text += ", torch.nn.ReLU(), torch.nn.BatchNorm1d(" + std::to_string(width) + "),\n";
  }
  linear(outputs);
  return text + ").eval()\n";
}

/// Returns Markdown with a Python program that loads the folder and makes a prediction for an
/// image.
std::string readme_of(const Checkpoint& checkpoint, const std::string& head,
                      const std::vector<std::string>& remarks) {
  const Answer answer = answer_of(checkpoint);
  const bool is_pair = checkpoint.pair_of > 0;
  const FittedDecision decision = decision_of(checkpoint);
  std::string text = "# Trained by Retort\n\n";
  text += head.empty() ? "The whole network, in timm's format.\n"
                       : "The backbone, in timm's format, and the head that was trained on the "
                         "mean of its last feature map.\n";
  if (is_pair)
    text += "\nIt distinguishes two of the classes. Its single logit is for the second one.\n";
  for (const std::string& remark : remarks) text += "\n" + remark + "\n";
  text += "\n```python\nimport json, torch\nimport timm\n";
  if (!head.empty()) text += "from safetensors.torch import load_file\n";
  text +=
      "from transformers import AutoImageProcessor\nfrom transformers.image_utils import "
      "load_image\n\n";
  text += "folder, photo = \".\", \"photo.jpg\"\n";
  text += "model = timm.create_model(f\"local-dir:{folder}\", pretrained=True).eval()\n";
  if (!head.empty())
    text += "head = " + head + "head.load_state_dict(load_file(f\"{folder}/head.safetensors\"))\n";
  text += "processor = AutoImageProcessor.from_pretrained(folder, backend=\"pil\")\n\n";
  text += "with torch.no_grad():\n  inputs = processor(load_image(photo), return_tensors=\"pt\")\n";
  text +=
      std::string("  logits = ") +
      (head.empty() ? "model(inputs[\"pixel_values\"])" : "head(model(inputs[\"pixel_values\"]))") +
      "\n";
  if (is_pair)
    text += "second = logits.sigmoid()\nprobabilities = torch.cat([1 - second, second], -1)\n";
  else if (answer == Answer::kClass) text += probabilities_in_python(decision);
  return text + answer_in_python(answer, decision) + "```\n";
}

/// Returns remarks about steps of the transform that the program does not perform.
std::vector<std::string> remarks_on(const Checkpoint& checkpoint,
                                    const ImageDatasetOptions& transform) {
  std::vector<std::string> remarks = lost_in_preprocessor(transform);
  for (std::string& remark : remarks_on(decision_of(checkpoint)))
    remarks.push_back(std::move(remark));
  if (transform.preprocessing.does_anything()) {
    remarks.emplace_back(
        "Training cropped, flattened or equalized each image before resizing it (`crop_to_disc`, "
        "`flatten_sharpen`, `clahe`); the program below does not, so its predictions are "
        "unreliable: use `retort predict`, which performs all steps.");
  }
  if (!checkpoint.weights.empty()) {
    remarks.push_back("These are the weights " +
                      std::string(checkpoint.weights == "averaged"
                                      ? "averaged over the training steps."
                                      : "as trained, not their average."));
  }
  return remarks;
}

}  // namespace

void export_convolutional(const fs::path& folder, const Checkpoint& checkpoint,
                          const ConvolutionalClassifier& model,
                          ConvolutionalClassifierNetwork& network, const std::string& what) {
  if (what != "merged") {
    throw StageError(ErrorCode::kOptionConflict,
                     what == "adapter"
                         ? "the model has no adapters: its own weights were trained"
                         : "a convolutional network cannot be exported as one program")
        .with_help("export it with --merged");
  }
  const ConvolutionalClassifierConfig& config = model.config();
  const TimmModel timm = timm_model(config);
  const ImageDatasetOptions transform = transform_of(checkpoint);
  NamedTensors weights = values_of(network.backbone(), ""), head = values_of(network.head(), "");
  // Each hidden layer has four modules, and there is a dropout before the last layer.
  const std::string last = std::to_string(4 * config.head.widths.size() + 1);
  const std::int64_t channels = head.at("1.weight").size(1),
                     outputs = head.at(last + ".weight").size(0);
  const bool is_single = config.head.widths.empty();
  std::string program;
  if (is_single) {
    weights.set(timm.classifier + ".weight", head.at("1.weight"));
    weights.set(timm.classifier + ".bias", head.at("1.bias"));
  } else {
    program = head_in_python(config.head.widths, channels, outputs);
    write_safetensors(folder / "head.safetensors", head, {{"format", "pt"}});
  }
  write_safetensors(folder / "model.safetensors", weights, {{"format", "pt"}});
  write_text(folder / "config.json",
             config_of_timm(timm, is_single ? outputs : 0, channels, transform));
  write_text(folder / "preprocessor_config.json", preprocessor_config(transform));
  write_text(folder / "classes.json", checkpoint.classes);
  write_answer(folder, checkpoint);
  runner::write_atomically(folder / "README.md",
                           readme_of(checkpoint, program, remarks_on(checkpoint, transform)));
}

}  // namespace stages
