#include "stages/worker/export_readme.h"

namespace stages {
namespace {

/// Python lines by which a folder is loaded and its features or logits are computed.
struct Program {
  std::vector<std::string> imports;
  std::string loader = {};  ///< a class of transformers; empty: none
  std::vector<std::string> load;
  std::string output;  ///< an expression of `model` and `inputs`: the logits or, where the head stands apart, features
};

bool is_clip(WeightLayout layout) {
  return layout == WeightLayout::kClip || layout == WeightLayout::kClipInner || layout == WeightLayout::kTimmClip;
}

bool is_timm(WeightLayout layout) { return layout == WeightLayout::kTimm || layout == WeightLayout::kTimmClip; }

std::string features_of_clip(Feature feature) {
  switch (feature) {
    case Feature::kPooled:
      return "model(**inputs).pooler_output";
    case Feature::kProjected:
      return "model(**inputs).image_embeds";
    case Feature::kProjectedBeforeNorm:
      return "model.visual_projection(model(**inputs).last_hidden_state[:, 0])";
  }
  return "";
}

Program program_of_torch_script() {
  return {{}, "", {"model = torch.jit.load(f\"{folder}/model.pt\")"}, "model(inputs[\"pixel_values\"])"};
}

/// timm's name of a folder or repository.
std::string timm_reference(const std::string& base) {
  return (base.starts_with('/') ? "local-dir:" : "hf-hub:") + base;
}

Program program_of_timm(const ExportReadme& readme) {
  const bool is_adapter = readme.form == ExportForm::kAdapter;
  Program program{{"import timm"}, "", {}, "model(inputs[\"pixel_values\"])"};
  const std::string without_head = readme.layout == WeightLayout::kTimm ? ", num_classes=0" : "";
  if (is_adapter) {
    program.imports.emplace_back("from peft import PeftModel");
    program.load = {
        "base = timm.create_model(\"" + timm_reference(readme.base) + "\", pretrained=True" + without_head + ").eval()",
        "model = PeftModel.from_pretrained(base, folder)"};
  } else {
    program.load = {"model = timm.create_model(f\"local-dir:{folder}\", pretrained=True).eval()"};
  }
  if (readme.feature == Feature::kProjectedBeforeNorm) {
    program.load.emplace_back(std::string(is_adapter ? "base" : "model") +
                              ".norm = torch.nn.Identity()  # the projection is applied before the norm");
  }
  return program;
}

Program program_of_transformers(const ExportReadme& readme) {
  if (readme.form == ExportForm::kAdapter) {
    const std::string head =
        readme.gives_logits ? ", num_labels=" + std::to_string(readme.classes) + ", ignore_mismatched_sizes=True" : "";
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

std::string what_it_is(const ExportReadme& readme) {
  switch (readme.form) {
    case ExportForm::kMerged:
      return "The whole network, as " + std::string(is_timm(readme.layout) ? "timm" : "transformers") + " loads it.";
    case ExportForm::kAdapter:
      return "Low-rank adapters, as peft loads them, for `" + readme.base + "`.";
    case ExportForm::kTorchScript:
      return "The whole network as a TorchScript program, for C++ (`torch::jit::load`) and Python: of normalised "
             "pixels "
             "of any number of images, their logits.";
  }
  return "";
}

}  // namespace

std::string moved_base_remark() {
  return "The weights that the adapter was trained on are not published, so they are in `base/`. "
         "If the folder is moved, change `base_model_name_or_path` in adapter_config.json.";
}

std::string to_text(const ClipReadme& readme) {
  const bool is_adapter = !readme.base.empty();
  const std::string vocabulary = is_adapter ? "model.peft_config[\"default\"].base_model_name_or_path" : "folder";
  std::string text = "# Trained by Retort\n\n";
  text += is_adapter ? "Low-rank adapters, as peft loads them, for the CLIP `" + readme.base + "`.\n"
                     : "A CLIP of two towers, as transformers' CLIPModel loads it.\n";
  for (const std::string& remark : readme.remarks) text += "\n" + remark + "\n";
  text += "\n```python\nimport json, torch\n";
  if (is_adapter) text += "from peft import AutoPeftModel\n";
  if (readme.has_head) text += "from safetensors.torch import load_file\n";
  text += "from transformers import AutoImageProcessor, AutoTokenizer" + std::string(is_adapter ? "" : ", CLIPModel") +
          "\nfrom transformers.image_utils import load_image\n\nfolder, photo = \".\", \"photo.jpg\"\n";
  text += std::string("model = ") + (is_adapter ? "AutoPeftModel" : "CLIPModel") + ".from_pretrained(folder).eval()\n";
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
        "logits = torch.nn.functional.linear(outputs.image_embeds, head[\"weight\"], head[\"bias\"])\n";
  } else {
    text += "logits = outputs.logits_per_image\n";
  }
  text += "probabilities = logits.softmax(-1)\nprint(names[int(probabilities[0].argmax())])\n```\n";
  return text;
}

std::string to_text(const ExportReadme& readme) {
  const Program program = program_of(readme);
  std::string text = "# " + readme.title + "\n\n" + what_it_is(readme) + "\n";
  for (const std::string& remark : readme.remarks) text += "\n" + remark + "\n";
  text += "\n```python\nimport json, torch\n";
  for (const std::string& line : program.imports) text += line + "\n";
  if (!readme.gives_logits) text += "from safetensors.torch import load_file\n";
  text += "from transformers import AutoImageProcessor" + (program.loader.empty() ? "" : ", " + program.loader) + "\n";
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
  text += "probabilities = logits.softmax(-1)\n";
  text += "print(json.load(open(f\"{folder}/classes.json\"))[int(probabilities[0].argmax())])\n```\n";
  return text;
}

}  // namespace stages
