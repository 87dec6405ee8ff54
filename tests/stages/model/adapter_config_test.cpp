#include "stages/model/adapter_config.h"

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::ElementsAre;

/// Returns the options of a config with these members in addition to peft_type and target_modules.
AdapterConfig config_with(const std::string& members) {
  return parse_adapter_config(R"({"peft_type": "LORA", "target_modules": ["q_proj"])" + members +
                              "}");
}

void expect_refused(const std::string& text, const std::string& why) {
  try {
    parse_adapter_config(text);
    FAIL() << "taken: " << text;
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(error.what(), why);
  }
}

void expect_refused_with(const std::string& members, const std::string& why) {
  expect_refused(R"({"peft_type": "LORA", "target_modules": ["q_proj"])" + members + "}", why);
}

TEST(AdapterConfigTest, MissingKeysHavePeftDefaults) {
  const LoraOptions options = config_with("").options;
  LoraOptions expected;
  expected.targets = std::vector<std::string>{"q_proj"};
  EXPECT_EQ(options, expected);
  EXPECT_EQ(options.rank, 8);
  EXPECT_EQ(options.alpha, 8);
}

TEST(AdapterConfigTest, EveryKeyIsRead) {
  const AdapterConfig config = parse_adapter_config(R"({
    "alpha_pattern": {"v_proj": 16, "fc1": 0.5}, "auto_mapping": {"base_model_class": "C", "parent_library": "l.c"},
    "base_model_name_or_path": "openai/clip", "bias": "lora_only", "exclude_modules": ".*out", "fan_in_fan_out": false,
    "inference_mode": true, "init_lora_weights": "gaussian", "layers_pattern": "layers", "layers_to_transform": [1, 2],
    "lora_alpha": 12.5, "lora_dropout": 0.1, "modules_to_save": ["head"], "peft_type": "LORA", "r": 4,
    "rank_pattern": {"v_proj": 2, "fc1": 3}, "revision": "main", "target_modules": ["q_proj", "v_proj"],
    "task_type": null, "use_rslora": true, "use_dora": false, "loftq_config": {}, "megatron_core": "megatron.core",
    "qalora_group_size": 16, "peft_version": "0.21.2", "a_key_of_tomorrow": null, "another": [], "third": ""})");
  LoraOptions expected{.rank = 4, .alpha = 12.5, .rank_stabilized = true, .dropout = 0.1};
  expected.targets = std::vector<std::string>{"q_proj", "v_proj"};
  expected.exclude = ".*out";
  expected.layers = {1, 2};
  expected.layers_pattern = {"layers"};
  expected.rank_pattern = {{"v_proj", 2}, {"fc1", 3}};
  expected.alpha_pattern = {{"v_proj", 16}, {"fc1", 0.5}};
  expected.bias = LoraBias::kAdapted;
  expected.initialization = LoraInitialization::kGaussian;
  expected.modules_to_save = {"head"};
  EXPECT_EQ(config.options, expected);
  EXPECT_EQ(config.base_class, "C");
  EXPECT_EQ(config.parent_library, "l.c");
  EXPECT_EQ(config.base_model, "openai/clip");
  EXPECT_EQ(config.revision, "main");
  EXPECT_THAT(config.notes, ElementsAre());
}

TEST(AdapterConfigTest, RoundTripKeepsThePatternOrder) {
  AdapterConfig config;
  config.options = {.rank = 4, .alpha = 0.75, .dropout = 0.25};
  config.options.targets = std::vector<std::string>{"v_proj", "q_proj"};
  config.options.exclude = std::vector<std::string>{"layers.1.q_proj"};
  config.options.layers = {0, 3};
  config.options.layers_pattern = {"[^.]*"};
  config.options.rank_pattern = {{"z", 2}, {"a", 3}};
  config.options.bias = LoraBias::kAll;
  config.base_class = "VisionTransformer";
  config.parent_library = "timm.models.vision_transformer";
  EXPECT_EQ(parse_adapter_config(to_text(config)).options, config.options);
}

TEST(AdapterConfigTest, WrittenTextMatchesPeft) {
  AdapterConfig config;
  config.options = {.rank = 8, .alpha = 16, .dropout = 0.1};
  config.options.targets = std::vector<std::string>{"q_proj"};
  config.base_class = "CLIPVisionTransformer";
  config.parent_library = "transformers.models.clip.modeling_clip";
  EXPECT_EQ(to_text(config), R"({
  "alpha_pattern": {},
  "auto_mapping": {
    "base_model_class": "CLIPVisionTransformer",
    "parent_library": "transformers.models.clip.modeling_clip"
  },
  "base_model_name_or_path": null,
  "bias": "none",
  "fan_in_fan_out": false,
  "inference_mode": true,
  "init_lora_weights": true,
  "layers_pattern": null,
  "layers_to_transform": null,
  "lora_alpha": 16,
  "lora_dropout": 0.1,
  "modules_to_save": null,
  "peft_type": "LORA",
  "r": 8,
  "rank_pattern": {},
  "revision": null,
  "target_modules": [
    "q_proj"
  ],
  "task_type": null,
  "use_rslora": false
})");
}

TEST(AdapterConfigTest, UnsupportedVariantsAreRejectedByName) {
  const std::string only = ", but only LoRA and DoRA are supported";
  for (const std::string key : {"use_bdlora", "lora_bias", "use_qalora", "a_key_of_tomorrow"})
    expect_refused_with(", \"" + key + "\": true", "'" + key + "' is true" + only);
  expect_refused_with(R"(, "target_parameters": ["w"])", R"('target_parameters' is ["w"])" + only);
  expect_refused_with(R"(, "trainable_token_indices": [1])",
                      "'trainable_token_indices' is [1]" + only);
  expect_refused_with(R"(, "layer_replication": [[0, 4]])",
                      "'layer_replication' is [[0,4]]" + only);
  expect_refused_with(R"(, "arrow_config": {"top_k": 3})",
                      R"('arrow_config' is {"top_k":3})" + only);
  expect_refused_with(R"(, "megatron_config": {"x": 1})", R"('megatron_config' is {"x":1})" + only);
  expect_refused(R"({"peft_type": "IA3"})", R"('peft_type' is "IA3", but only LORA is supported)");
  expect_refused_with(
      R"(, "init_lora_weights": "pissa_niter_16")",
      R"('init_lora_weights' is "pissa_niter_16", which may have changed the base weights: )"
      "convert the adapter to plain LoRA first");
}

TEST(AdapterConfigTest, InvalidConfigIsRejected) {
  expect_refused("{", "it is not JSON");
  expect_refused("[]", "it is not a mapping");
  expect_refused_with(", \"x\": " + std::string(1000000, '['), "it is nested too deeply");
  expect_refused("{}", "it has no 'peft_type'");
  expect_refused(R"({"peft_type": "LORA"})", "it has no 'target_modules'");
  expect_refused_with(R"(, "r": 0)", "'r' is 0, not a number from 1 to 16384");
  expect_refused_with(R"(, "r": 1e300)", "'r' is 1e+300, not a number from 1 to 16384");
  expect_refused_with(R"(, "r": 18446744073709551615)",
                      "'r' is 18446744073709551615, not a number from 1 to 16384");
  expect_refused_with(R"(, "lora_alpha": "8")", R"('lora_alpha' is "8", not a number)");
  expect_refused_with(R"(, "lora_dropout": 1)", "'lora_dropout' is not a probability below 1");
  expect_refused_with(R"(, "use_rslora": 1)", "'use_rslora' is 1, not true or false");
  expect_refused_with(R"(, "bias": "some")",
                      R"('bias' is "some", not "none", "all" or "lora_only")");
  expect_refused_with(R"(, "modules_to_save": "head")",
                      R"('modules_to_save' is "head", not a list of names)");
  expect_refused_with(R"(, "rank_pattern": {"a": 0})",
                      "'rank_pattern' is 0, not a number from 1 to 16384");
  expect_refused_with(R"(, "rank_pattern": {"a(": 1})",
                      "'rank_pattern' has 'a(', which is not a regular expression: missing closing "
                      "parenthesis at character 2");
  expect_refused(R"({"peft_type": "LORA", "target_modules": "q.*", "layers_to_transform": 1})",
                 "'layers_to_transform' and 'layers_pattern' cannot be used when 'target_modules' "
                 "is an expression");
}

TEST(AdapterConfigTest, TransposedWeightsAreReportedAsInPeft) {
  EXPECT_THAT(
      config_with(R"(, "fan_in_fan_out": true)").notes,
      ElementsAre("fan_in_fan_out has no effect: no layer here stores its weight transposed"));
}

}  // namespace
}  // namespace stages
