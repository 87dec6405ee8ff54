#include "stages/model/torch_script.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/script.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "stages/model/vision_tower.h"

namespace stages {
namespace {

constexpr std::string_view kBlocksOfTower = "vision_model.encoder.layers.";

/// Builds the text of a method line by line.
class MethodText {
 public:
  explicit MethodText(const std::string& head) : text_(head + "\n") {}
  MethodText& line(const std::string& line) {
    text_ += "  " + line + "\n";
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string number(double value) { return nlohmann::json(value).dump(); }

/// Returns the attribute name for a parameter.
std::string attribute(std::string name) {
  std::ranges::replace(name, '.', '_');
  return name;
}

std::string linear(const std::string& input, const std::string& layer) {
  return "torch.linear(" + input + ", self." + layer + "_weight, self." + layer + "_bias)";
}

/// Creates the program of a network. Its modules share a compilation unit, so their classes get
/// distinct names in the file.
class ScriptWriter {
 public:
  explicit ScriptWriter(const ImageClassifier& network)
      : options_(network.options()),
        block_(options_.tower.block),
        parameters_(network.named_parameters()) {}

  torch::jit::Module classifier() const {
    torch::jit::Module result = module("Classifier");
    add_parameters(result, "");
    for (std::int64_t i = 0; i < options_.tower.num_hidden_layers; ++i) {
      torch::jit::Module block = module("Block");
      add_parameters(block, std::string(kBlocksOfTower) + std::to_string(i) + ".");
      block.define(block_source());
      result.register_module("block_" + std::to_string(i), block);
    }
    result.define(classifier_source());
    result.eval();
    return result;
  }

 private:
  torch::jit::Module module(const std::string& name) const {
    return {c10::QualifiedName("__torch__." + name), unit_, /*shouldMangle=*/true};
  }

  /// Adds the parameters under `prefix`; an empty prefix adds those outside the blocks.
  void add_parameters(torch::jit::Module& to, std::string_view prefix) const {
    for (const auto& item : parameters_) {
      if (!item.key().starts_with(prefix) ||
          (prefix.empty() && item.key().starts_with(kBlocksOfTower)))
        continue;
      to.register_parameter(attribute(item.key().substr(prefix.size())),
                            item.value().detach().to(at::kFloat),
                            /*is_buffer=*/false);
    }
  }

  std::string norm(const std::string& input, const std::string& layer) const {
    return "torch.layer_norm(" + input + ", [" + std::to_string(block_.hidden_size) + "], self." +
           layer + "_weight, self." + layer + "_bias, " + number(block_.layer_norm_eps) + ")";
  }

  std::string scale(const std::string& layer) const {
    return block_.layer_scale ? "self." + layer + "_lambda1 * " : "";
  }

  std::string block_source() const {
    const std::string heads = std::to_string(block_.num_attention_heads),
                      width = std::to_string(block_.hidden_size / block_.num_attention_heads);
    const auto split = [&](const std::string& tokens) {
      return "(" + tokens + ").view([x.size(0), x.size(1), " + heads + ", " + width +
             "]).transpose(1, 2)";
    };
    MethodText source("def forward(self, x):");
    source.line("seen = " + norm("x", "layer_norm1"));
    if (block_.fused_qkv) {
      source.line("parts = torch.chunk(" + linear("seen", "self_attn_qkv") + ", 3, 2)");
      source.line("queries, keys, values = parts[0], parts[1], parts[2]");
    } else {
      source.line("queries = " + linear("seen", "self_attn_q_proj"));
      source.line("keys = " + linear("seen", "self_attn_k_proj"));
      source.line("values = " + linear("seen", "self_attn_v_proj"));
    }
    source.line("attended = torch.scaled_dot_product_attention(" + split("queries") + ", " +
                split("keys") + ", " + split("values") + ")");
    source.line("attended = attended.transpose(1, 2).reshape([x.size(0), x.size(1), " +
                std::to_string(block_.hidden_size) + "])");
    source.line("x = x + " + scale("layer_scale1") + linear("attended", "self_attn_out_proj"));
    source.line("inner = " + linear(norm("x", "layer_norm2"), "mlp_fc1"));
    source.line(block_.hidden_act == Activation::kGelu
                    ? "inner = torch.gelu(inner)"
                    : "inner = inner * torch.sigmoid(1.702 * inner)");
    source.line("return x + " + scale("layer_scale2") + linear("inner", "mlp_fc2"));
    return source.text();
  }

  std::string classifier_source() const {
    const std::string embeddings = "self.vision_model_embeddings_",
                      patch = std::to_string(options_.tower.patch_size);
    const std::string bias =
        options_.tower.patch_bias ? embeddings + "patch_embedding_bias" : "None";
    MethodText source("def forward(self, pixel_values):");
    source.line("patches = torch.conv2d(pixel_values, " + embeddings + "patch_embedding_weight, " +
                bias + ", [" + patch + ", " + patch + "]).flatten(2).transpose(1, 2)");
    source.line("token = " + embeddings + "class_embedding.expand([patches.size(0), 1, -1])");
    source.line("x = torch.cat([token, patches], 1) + " + embeddings + "position_embedding_weight");
    if (options_.tower.register_tokens > 0) {
      source.line("registers = " + embeddings +
                  "register_tokens.expand([patches.size(0), -1, -1])");
      source.line("tokens = torch.narrow(x, 1, 1, patches.size(1))");
      source.line("x = torch.cat([torch.narrow(x, 1, 0, 1), registers, tokens], 1)");
    }
    if (options_.tower.norm_before_blocks)
      source.line("x = " + norm("x", "vision_model_pre_layrnorm"));
    for (std::int64_t i = 0; i < options_.tower.num_hidden_layers; ++i) {
      source.line("x = self.block_" + std::to_string(i) + ".forward(x)");
    }
    source.line("features = torch.select(x, 1, 0)");
    if (options_.feature != Feature::kProjectedBeforeNorm) {
      source.line("features = " + norm("features", "vision_model_post_layernorm"));
    }
    if (is_projected(options_.feature)) {
      const std::string projection_bias =
          options_.projection_bias ? "self.visual_projection_bias" : "None";
      source.line("features = torch.linear(features, self.visual_projection_weight, " +
                  projection_bias + ")");
    }
    if (options_.feature == Feature::kProjectedNormalized)
      source.line("features = features / torch.norm(features, 2, [-1], True)");
    source.line("return " + linear("features", "head"));
    return source.text();
  }

  const ImageClassifierOptions options_;
  const BlockOptions block_;
  const torch::OrderedDict<std::string, at::Tensor> parameters_;
  const std::shared_ptr<torch::jit::CompilationUnit> unit_ =
      std::make_shared<torch::jit::CompilationUnit>();
};

/// Throws if the outputs of the program and of the network differ.
void check_program(torch::jit::Module& program, const ImageClassifier& network) {
  const std::int64_t side = network.options().tower.image_size, images = 2;
  const at::Tensor pixels =
      torch::linspace(-2, 2, images * 3 * side * side).view({images, 3, side, side});
  const at::Tensor ours = network.forward(pixels).at("logits");
  const at::Tensor theirs = program.forward({pixels}).toTensor();
  constexpr double kRelative = 1e-3, kAbsolute = 1e-4;
  if (!torch::allclose(theirs, ours, kRelative, kAbsolute, /*equal_nan=*/true)) {
    throw std::logic_error("the logits of the TorchScript program differ from the network's");
  }
}

}  // namespace

void write_torch_script(const ImageClassifier& network, const std::filesystem::path& file) {
  const torch::NoGradGuard no_graph;
  torch::jit::Module program = ScriptWriter(network).classifier();
  check_program(program, network);
  program.save(file.string());
}

}  // namespace stages
