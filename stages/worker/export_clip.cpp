#include "stages/worker/export_clip.h"

#include <stdexcept>

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/preprocessor_config.h"
#include "stages/model/adapted_clip.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/adapter_layout.h"
#include "stages/model/clip_model.h"
#include "stages/model/exported_clip.h"
#include "stages/model/published_base.h"
#include "stages/weights/safetensors.h"
#include "stages/worker/export_readme.h"
#include "stages/worker/network_of_run.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

constexpr const char* kBaseOfClip = "base";  // a folder

void write_document(const fs::path& file, const Json& json) {
  runner::write_atomically(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// Writes one folder about one CLIP.
class ClipExport {
 public:
  ClipExport(const Checkpoint& checkpoint, ClipNetwork& network)
      : checkpoint_(checkpoint),
        network_(network),
        tokenizer_(dynamic_cast<const Clip&>(*checkpoint.model).tokenizer()),
        transform_(transform_of(checkpoint)) {
    readme_.has_head = network.options().class_count > 0;
    readme_.remarks = lost_in_preprocessor(transform_);
  }

  void merged(const fs::path& folder) {
    merge_lora(network_);
    write_model(folder);
    write_tokenizer(folder);
    finish(folder);
  }

  void adapter(const fs::path& folder, const fs::path& place, const RequestContext& context) {
    auto* adapted = dynamic_cast<AdaptedClip*>(&network_);
    if (!adapted) {
      throw StageError(ErrorCode::kOptionConflict, "the model has no adapters: all its weights were trained")
          .with_help("export it with --merged");
    }
    AdapterBase base = whole_clip();
    const auto published = published_base(*adapted);
    base.name_or_path =
        published ? published->name_or_path : (fs::absolute(place) / kBaseOfClip).lexically_normal().string();
    if (published) base.revision = published->revision;
    save_adapter(folder, adapted->lora(), module_names(WeightLayout::kClip), base);
    if (!published) write_base(folder / kBaseOfClip, *adapted, context);
    readme_.base = *base.name_or_path;
    finish(folder);
  }

 private:
  void write_model(const fs::path& folder) const {
    write_safetensors(folder / "model.safetensors", exported(network_), {{"format", "pt"}});
    write_document(folder / "config.json", exported_config(network_.options()));
  }

  /// What the adapters were trained on, where no library has it.
  void write_base(const fs::path& folder, AdaptedClip& network, const RequestContext& context) {
    for (const LoraLayer& layer : network.lora().layers) layer.layer->detach();
    fs::create_directory(folder);
    write_model(folder);
    write_document(folder / "preprocessor_config.json", preprocessor_config(transform_));
    write_tokenizer(folder);
    readme_.remarks.push_back(moved_base_remark());
    context.say("the weights below the adapter are written too, in base/: no library has them");
  }

  /// How texts become what the network reads. Beside an adapter they are not: where there is a tokenizer, peft wants to
  /// make the network's vocabulary as large, which transformers' CLIPModel does not let it.
  void write_tokenizer(const fs::path& folder) const {
    const Vocabulary vocabulary = tokenizer_.vocabulary();
    runner::write_atomically(folder / "merges.txt", merges_text(vocabulary));
    runner::write_atomically(folder / "vocab.json", numbers_text(vocabulary));
    write_document(folder / "tokenizer_config.json", {{"tokenizer_class", "CLIPTokenizer"},
                                                      {"model_max_length", network_.options().text.context_length},
                                                      {"bos_token", "<|startoftext|>"},
                                                      {"eos_token", "<|endoftext|>"},
                                                      {"unk_token", "<|endoftext|>"},
                                                      {"pad_token", "<|endoftext|>"}});
  }

  void finish(const fs::path& folder) const {
    write_document(folder / "preprocessor_config.json", preprocessor_config(transform_));
    if (readme_.has_head) {
      const auto weights = network_.named_parameters();
      save_head(folder, {weights["class_head.weight"].detach(), weights["class_head.bias"].detach(), {}});
    }
    write_document(folder / "classes.json", checkpoint_.classes);
    runner::write_atomically(folder / "README.md", to_text(readme_));
  }

  const Checkpoint& checkpoint_;
  ClipNetwork& network_;
  const Tokenizer& tokenizer_;
  const ImageDatasetOptions transform_;
  ClipReadme readme_;
};

}  // namespace

void export_clip(const fs::path& folder, const fs::path& place, const Checkpoint& checkpoint, ClipNetwork& network,
                 const std::string& what, const RequestContext& context) {
  ClipExport writer(checkpoint, network);
  if (what == "merged") return writer.merged(folder);
  if (what == "adapter") return writer.adapter(folder, place, context);
  throw StageError(ErrorCode::kOptionConflict, "a CLIP of two towers cannot be exported as one program")
      .with_help("export it with --merged");
}

}  // namespace stages
