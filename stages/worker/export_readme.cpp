#include "stages/worker/export_readme.h"

#include <variant>
#include <vector>

#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/label_thresholds.h"
#include "stages/artifact/targets.h"
#include "stages/data/preprocessor_config.h"
#include "stages/weights/safetensors.h"
#include "stages/worker/network_of_run.h"

namespace stages {
namespace {

/// Lines of Python that load a folder and compute its features or logits.
struct Program {
  std::vector<std::string> imports;
  std::string loader = {};  ///< a transformers class; empty if none is needed
  std::vector<std::string> load;
  std::string output;  ///< an expression in `model` and `inputs` for the logits, or for the
                       ///< features if the head is separate
};

bool is_clip(WeightLayout layout) {
  return layout == WeightLayout::kClip || layout == WeightLayout::kClipInner ||
         layout == WeightLayout::kTimmClip;
}

bool is_timm(WeightLayout layout) {
  return layout == WeightLayout::kTimm || layout == WeightLayout::kTimmClip;
}

std::string normalized_in_python(const std::string& features) {
  return "torch.nn.functional.normalize(" + features + ", dim=-1)";
}

std::string features_of_clip(Feature feature) {
  switch (feature) {
    case Feature::kPooled:
      return "model(**inputs).pooler_output";
    case Feature::kProjected:
      return "model(**inputs).image_embeds";
    case Feature::kProjectedBeforeNorm:
      return "model.visual_projection(model(**inputs).last_hidden_state[:, 0])";
    case Feature::kProjectedNormalized:
      return normalized_in_python("model(**inputs).image_embeds");
  }
  return "";
}

Program program_of_torch_script() {
  return {{},
          "",
          {"model = torch.jit.load(f\"{folder}/model.pt\")"},
          "model(inputs[\"pixel_values\"])"};
}

/// Returns timm's name for a folder or repository.
std::string timm_reference(const std::string& base) {
  return (base.starts_with('/') ? "local-dir:" : "hf-hub:") + base;
}

Program program_of_timm(const ExportReadme& readme) {
  const bool is_adapter = readme.form == ExportForm::kAdapter;
  Program program{{"import timm"}, "", {}, "model(inputs[\"pixel_values\"])"};
  const std::string without_head = readme.layout == WeightLayout::kTimm ? ", num_classes=0" : "";
  if (is_adapter) {
    program.imports.emplace_back("from peft import PeftModel");
    program.load = {"base = timm.create_model(\"" + timm_reference(readme.base) +
                        "\", pretrained=True" + without_head + ").eval()",
                    "model = PeftModel.from_pretrained(base, folder)"};
  } else {
    program.load = {"model = timm.create_model(f\"local-dir:{folder}\", pretrained=True).eval()"};
  }
  if (readme.feature == Feature::kProjectedNormalized)
    program.output = normalized_in_python(program.output);
  if (readme.feature == Feature::kProjectedBeforeNorm) {
    program.load.emplace_back(
        std::string(is_adapter ? "base" : "model") +
        ".norm = torch.nn.Identity()  # the projection is applied before the norm");
  }
  return program;
}

Program program_of_transformers(const ExportReadme& readme) {
  if (readme.form == ExportForm::kAdapter) {
    const std::string head =
        readme.gives_logits
            ? ", num_labels=" + std::to_string(readme.outputs) + ", ignore_mismatched_sizes=True"
            : "";
    const std::string output = readme.gives_logits      ? "model(**inputs).logits"
                               : is_clip(readme.layout) ? features_of_clip(readme.feature)
                                                        : "model(**inputs).last_hidden_state[:, 0]";
    return {{"from peft import AutoPeftModel"},
            "",
            {"model = AutoPeftModel.from_pretrained(folder" + head + ").eval()"},
            output};
  }
  const std::string loader = !is_clip(readme.layout)        ? "AutoModelForImageClassification"
                             : is_projected(readme.feature) ? "CLIPVisionModelWithProjection"
                                                            : "AutoModel";
  return {{},
          loader,
          {"model = " + loader + ".from_pretrained(folder)"},
          readme.gives_logits ? "model(**inputs).logits" : features_of_clip(readme.feature)};
}

Program program_of(const ExportReadme& readme) {
  if (readme.form == ExportForm::kTorchScript) return program_of_torch_script();
  return is_timm(readme.layout) ? program_of_timm(readme) : program_of_transformers(readme);
}

/// Returns the lines of a program that compute the probabilities of the classes and, for an ordinal
/// head, `above`: the probabilities that the class is above each class but the last.
std::string probabilities_in_python(const FittedDecision& decision) {
  const bool is_divided = decision.temperature != 1;
  const auto divided = [&](const std::string& logits) {
    return "(" + logits + " / " + nlohmann::json(decision.temperature).dump() + ").softmax(-1)";
  };
  if (decision.ordinal == OrdinalHead::kNone)
    return "probabilities = " + (is_divided ? divided("logits") : "logits.softmax(-1)") + "\n";
  const bool is_coral = decision.ordinal == OrdinalHead::kCoral;
  return "above = logits.double().sigmoid()" +
         std::string(is_coral ? ".sort(-1, descending=True).values\n" : ".cumprod(-1)\n") +
         "padded = torch.nn.functional.pad(above, (1, 0), value=1.0)\n"
         "probabilities = padded - torch.nn.functional.pad(above, (0, 1))\n" +
         (is_divided ? "probabilities = " + divided("probabilities.clamp_min(1.2e-38).log()") + "\n"
                     : "");
}

/// Returns the end of a program: prints the class that the decision predicts from the
/// `probabilities`, or the labels or numbers given by the `logits`.
std::string answer_in_python(Answer answer, const FittedDecision& decision) {
  const std::string names = "names = json.load(open(f\"{folder}/classes.json\"))\n";
  if (answer == Answer::kLabels)
    return names +
           "thresholds = json.load(open(f\"{folder}/thresholds.json\"))\n"
           "probabilities = logits[0].sigmoid().tolist()\n"
           "print([n for n, p, t in zip(names, probabilities, thresholds) if p >= t])\n";
  if (answer == Answer::kNumbers)
    return names +
           "targets = json.load(open(f\"{folder}/targets.json\"))\n"
           "outputs = zip(names, logits[0].tolist(), targets[\"scale\"], targets[\"offset\"])\n"
           "print({name: output * scale + offset for name, output, scale, offset in outputs})\n";
  if (decision.threshold)
    return names +
           "print(names[int(probabilities[0, 1] >= " + nlohmann::json(*decision.threshold).dump() +
           ")])\n";
  if (!decision.cut_points.empty())
    return names +
           "expected = sum(grade * p for grade, p in enumerate(probabilities[0].tolist()))\n"
           "print(names[sum(expected >= cut for cut in " +
           nlohmann::json(decision.cut_points).dump() + ")])\n";
  if (decision.ordinal != OrdinalHead::kNone)
    return names + "print(names[int((above[0] > 0.5).sum())])\n";
  return "print(json.load(open(f\"{folder}/classes.json\"))[int(probabilities[0].argmax())])\n";
}

std::string what_it_is(const ExportReadme& readme) {
  switch (readme.form) {
    case ExportForm::kMerged:
      return "The whole network, in the format of " +
             std::string(is_timm(readme.layout) ? "timm" : "transformers") + ".";
    case ExportForm::kAdapter:
      return "Low-rank adapters, in peft's format, for `" + readme.base + "`.";
    case ExportForm::kTorchScript:
      return "The whole network as a TorchScript program, for C++ (`torch::jit::load`) and Python. "
             "It returns the logits for the normalized pixels of any number of images.";
  }
  return "";
}

}  // namespace

Answer answer_of(const Checkpoint& checkpoint) {
  const auto names = static_cast<std::int64_t>(checkpoint.classes.size());
  if (has_label_sets(checkpoint.inputs, names)) return Answer::kLabels;
  return has_targets(checkpoint.inputs, names) ? Answer::kNumbers : Answer::kClass;
}

void write_answer(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  const std::size_t names = checkpoint.classes.size();
  const auto write = [&](const char* file, const nlohmann::ordered_json& json) {
    runner::write_atomically(folder / file, json.dump(2) + "\n");
  };
  switch (answer_of(checkpoint)) {
    case Answer::kClass:
      break;
    case Answer::kLabels:
      write("thresholds.json",
            thresholds_or_usual(checkpoint.validation, static_cast<std::int64_t>(names)));
      break;
    case Answer::kNumbers: {
      const bool is_scaled = checkpoint.targets.are_standardized;
      write("targets.json",
            {{"scale",
              is_scaled ? checkpoint.targets.standard_deviation : std::vector<double>(names, 1)},
             {"offset", is_scaled ? checkpoint.targets.mean : std::vector<double>(names, 0)}});
      break;
    }
  }
}

std::vector<std::string> output_names(const Checkpoint& checkpoint) {
  if (checkpoint.ordinal == OrdinalHead::kNone) return checkpoint.classes;
  std::vector<std::string> names;
  for (std::size_t label = 0; label + 1 < checkpoint.classes.size(); ++label)
    names.push_back("above " + checkpoint.classes[label]);
  return names;
}

std::vector<std::string> remarks_on(const FittedDecision& decision) {
  std::vector<std::string> remarks;
  if (decision.ordinal == OrdinalHead::kCoral)
    remarks.emplace_back(
        "The classes are ordered. Logit k is the logit of the probability that the class is above "
        "class k (CORAL).");
  if (decision.ordinal == OrdinalHead::kCorn)
    remarks.emplace_back(
        "The classes are ordered. Logit k is the logit of the probability that the class is above "
        "class k if it is at least class k (CORN), so the product of the probabilities up to k is "
        "the probability that the class is above class k.");
  if (decision.temperature != 1) {
    const std::string divided = decision.ordinal == OrdinalHead::kNone
                                    ? "The logits"
                                    : "The logarithms of the class probabilities";
    remarks.push_back(divided +
                      " are divided by a temperature fitted on the validation data, so that the "
                      "probabilities are calibrated.");
  }
  if (decision.threshold)
    remarks.emplace_back(
        "The second class is predicted if its probability is at or above a threshold that was "
        "chosen on the validation data.");
  if (!decision.cut_points.empty())
    remarks.emplace_back(
        "The grade is derived from the expected grade, using cut points that were chosen on the "
        "validation data.");
  return remarks;
}

std::string moved_base_remark() {
  return "The weights that the adapter was trained on are not published, so they are in `base/`. "
         "If the folder is moved, change `base_model_name_or_path` in adapter_config.json.";
}

std::string to_text(const ClipReadme& readme) {
  const bool is_adapter = !readme.base.empty();
  const std::string vocabulary =
      is_adapter ? "model.peft_config[\"default\"].base_model_name_or_path" : "folder";
  std::string text = "# Trained by Retort\n\n";
  text += is_adapter
              ? "Low-rank adapters, in peft's format, for the CLIP model `" + readme.base + "`.\n"
              : "A CLIP model with two towers, in the format of transformers' CLIPModel.\n";
  for (const std::string& remark : readme.remarks) text += "\n" + remark + "\n";
  text += "\n```python\nimport json, torch\n";
  if (is_adapter) text += "from peft import AutoPeftModel\n";
  if (readme.has_head) text += "from safetensors.torch import load_file\n";
  text +=
      "from transformers import AutoImageProcessor, AutoTokenizer" +
      std::string(is_adapter ? "" : ", CLIPModel") +
      "\nfrom transformers.image_utils import load_image\n\nfolder, photo = \".\", \"photo.jpg\"\n";
  text += std::string("model = ") + (is_adapter ? "AutoPeftModel" : "CLIPModel") +
          ".from_pretrained(folder).eval()\n";
  text +=
      "processor = AutoImageProcessor.from_pretrained(folder, backend=\"pil\")\n"
      "tokenizer = AutoTokenizer.from_pretrained(" +
      vocabulary +
      ")\n"
      "names = json.load(open(f\"{folder}/classes.json\"))\n"
      "texts = [f\"a photo of a {name}.\".replace(\"_\", \" \") for name in names]\n\n"
      "with torch.no_grad():\n"
      "  inputs = processor(load_image(photo), return_tensors=\"pt\")\n"
      "  outputs = model(**inputs, **tokenizer(texts, padding=True, return_tensors=\"pt\"))\n";
  if (readme.has_head) {
    text +=
        "head = load_file(f\"{folder}/head.safetensors\")\n"
        "logits = torch.nn.functional.linear(outputs.image_embeds, head[\"weight\"], "
        "head[\"bias\"])\n";
  } else {
    text += "logits = outputs.logits_per_image\n";
  }
  text += probabilities_in_python(readme.decision) +
          answer_in_python(Answer::kClass, readme.decision) + "```\n";
  return text;
}

std::string to_text(const ExportReadme& readme) {
  const Program program = program_of(readme);
  std::string text = "# " + readme.title + "\n\n" + what_it_is(readme) + "\n";
  for (const std::string& remark : readme.remarks) text += "\n" + remark + "\n";
  text += "\n```python\nimport json, torch\n";
  for (const std::string& line : program.imports) text += line + "\n";
  if (!readme.gives_logits) text += "from safetensors.torch import load_file\n";
  text += "from transformers import AutoImageProcessor" +
          (program.loader.empty() ? "" : ", " + program.loader) + "\n";
  text += "from transformers.image_utils import load_image\n\n";
  text += "folder, photo = \".\", \"photo.jpg\"\n";
  for (const std::string& line : program.load) text += line + "\n";
  text += "processor = AutoImageProcessor.from_pretrained(folder, backend=\"pil\")\n\n";
  text += "with torch.no_grad():\n  inputs = processor(load_image(photo), return_tensors=\"pt\")\n";
  if (readme.gives_logits) {
    text += "  logits = " + program.output + "\n";
  } else {
    text += "  features = " + program.output + "\n";
    text += "head = load_file(f\"{folder}/head.safetensors\")\n";
    text += "logits = torch.nn.functional.linear(features, head[\"weight\"], head[\"bias\"])\n";
  }
  if (readme.answer == Answer::kClass) text += probabilities_in_python(readme.decision);
  return text + answer_in_python(readme.answer, readme.decision) + "```\n";
}

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
