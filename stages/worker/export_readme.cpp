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

bool is_dinov2(WeightLayout layout) {
  return layout == WeightLayout::kDinov2 || layout == WeightLayout::kDinov25;
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
  const std::string loader = is_dinov2(readme.layout)       ? "AutoModel"
                             : !is_clip(readme.layout)      ? "AutoModelForImageClassification"
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
                                    : "The log probabilities of the classes";
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

}  // namespace stages
