#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/car_listing.h"
#include "tests/support/label_table.h"
#include "tests/support/program.h"
#include "tests/support/small_clip.h"
#include "tests/support/target_table.h"
#include "tests/support/torch_python.h"

// The shipped recipes and experiments, each in a small form that trains in seconds.

/// Recipes that train on the published car listing; the other car recipes train on Stanford Cars.
inline bool is_of_listing(const std::string& recipe) {
  return recipe == "clip_cars_as_published" || recipe == "clip_cars_head_first";
}

/// The recipes in a folder, such as "experiments", or the options of a group, such as
/// "recipes/data".
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(RETORT_SOURCE_DIR) / folder)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

inline std::vector<std::string> shipped_recipes() {
  std::vector<std::string> names = names_in("recipes"), presets = names_in("experiments");
  std::ranges::move(presets, std::back_inserter(names));
  std::ranges::sort(names);
  return names;
}

inline bool is_of_retinas(const std::string& recipe) {
  return recipe.starts_with("diabetic_retinopathy");
}

/// True if the recipe trains a network for each class pair.
inline bool has_pairs_of(const std::string& recipe) {
  return is_of_retinas(recipe) && recipe != "diabetic_retinopathy_external" &&
         recipe != "diabetic_retinopathy_ordinal" && recipe != "diabetic_retinopathy_timm";
}

inline bool is_of_python(const std::string& recipe) {
  return recipe == "timm" || recipe == "torchvision" || recipe == "transformers" ||
         recipe == "diabetic_retinopathy_timm";
}

/// False for the recipe that evaluates a frozen network without a training stage.
inline bool has_training(const std::string& recipe) { return recipe != "few_shot_prototypes"; }

/// For presets that initialize the head from captions, which a small backbone without weights
/// cannot.
inline std::string small_text_head(const std::string& recipe) {
  const bool has_text_head =
      recipe == "finetune_clip_full" || recipe == "clip_cars_text_classifier";
  if (!has_text_head) return "";
  return std::string(" model.head_start=uniform model.backbone.features=pooled ") +
         (recipe == "clip_cars_text_classifier"
              ? "'train.parameter_groups=[{match: [head], frozen: true}]' "
              : "");
}

/// Options for a Python recipe; make_transformer_for() must have run.
inline std::string small_in_python(const std::string& recipe) {
  return std::string(recipe == "transformers" ? "name=vit " : "data.image_size=32 ") +
         "python=" + torch_python().value_or("auto").string() + " ";
}

/// Saves a small network with transformers, for the recipe `transformers`.
inline void make_transformer_for(const std::string& recipe, const std::filesystem::path& folder) {
  if (recipe != "transformers" || !torch_python()) return;
  std::ofstream(folder / "make.py") << R"(
import json
from transformers import ViTConfig, ViTForImageClassification
sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
ViTForImageClassification(ViTConfig(**sizes, image_size=32, patch_size=8)).save_pretrained('vit')
half = [0.5, 0.5, 0.5]
with open('vit/preprocessor_config.json', 'w') as file:
    json.dump({'image_processor_type': 'ViTImageProcessor', 'size': {'height': 32, 'width': 32},
               'image_mean': half, 'image_std': half}, file)
)";
  const Ended made = run_shell(torch_python()->string() + " make.py && rm make.py", folder);
  ASSERT_EQ(made.exit, 0) << made.err;
}

/// Makes the data that in_small_form() names, in `folder`.
inline void make_small_data(const std::string& recipe, const std::filesystem::path& folder) {
  const auto make = [&](const std::string& arguments) {
    const Ended made = retort("data make " + arguments + " -q", folder);
    ASSERT_EQ(made.exit, 0) << made.err;
  };
  make("image_folder --out photos --classes 3 --per-class 10 --size 32");
  if (recipe.starts_with("fsct") || !has_training(recipe))
    make("mini_imagenet --out mini --classes 12 --per-class 6 --size 32");
  if (is_of_listing(recipe)) {
    const Ended listing = make_car_listing(folder, 3, 20);
    ASSERT_EQ(listing.exit, 0) << listing.err;
  } else if (recipe.starts_with("clip_cars")) {
    make("stanford_cars --out cars --classes 3 --per-class 20 --size 32");
  }
  if (is_of_retinas(recipe)) make("fundus_folders --out retinas --per-class 10 --size 48");
  if (recipe == "classify_external")
    make("image_folder --out others --classes 3 --per-class 5 --size 32 --seed 7");
  make_transformer_for(recipe, folder);
  if (recipe == "multi_label") write_label_table(folder / "photos");
  if (recipe == "regression") write_target_table(folder / "photos");
  if (recipe.starts_with("finetune"))
    make("flowers102 --out flowers --classes 3 --per-class 22 --size 32");
}

/// The recipe's name with overrides that make it small.
inline std::string in_small_form(const std::string& recipe) {
  if (is_of_python(recipe) && is_of_retinas(recipe)) {
    return recipe + " data.root=retinas data.loader.workers=0 train.batch_size=8 " +
           "name=resnet18 pretrained=false " + small_in_python(recipe);
  }
  if (is_of_retinas(recipe)) {
    return recipe +
           " data.root=retinas data.image_size=32 data.loader.workers=0 model.weights=null "
           "'model.layers=[1,1,1,1]' train.batch_size=8 memory.precision=fp32" +
           (recipe == "diabetic_retinopathy_external" ? " external.root=retinas" : "");
  }
  if (is_of_python(recipe))
    return recipe + " data.root=photos train.batch_size=4 " + small_in_python(recipe);
  if (recipe == "quickstart") return recipe;  // makes its own data
  if (recipe.starts_with("finetune"))
    return recipe + " data.root=flowers model/backbone=tiny data.image_size=28" +
           small_text_head(recipe);
  if (!has_training(recipe))
    return recipe +
           " data.root=mini model/backbone=tiny data.image_size=28 n_way=3 k_shot=2 n_query=3";
  if (recipe == "clip_cars_text_classifier")
    return recipe +
           " data.root=cars model/backbone=tiny data.image_size=28 data.loader.drop_last=false" +
           small_text_head(recipe);
  if (recipe.starts_with("fsct"))
    return recipe + " backbone=Conv4 data.root=mini data.image_size=32 n_way=3 k_shot=2 n_query=3";
  if (recipe.starts_with("clip_cars"))
    return recipe + " data.root=" + (is_of_listing(recipe) ? ". " : "cars ") +
           "data.loader.drop_last=false " + kSmallClip +
           (recipe == "clip_cars_flyp" ? " train.schedule.warmup_steps=5" : "");
  const bool splits = recipe.starts_with("classify");  // ten images per class
  return recipe + " data.root=photos" +
         (recipe == "classify_external" ? " external.root=others" : "") +
         (splits ? " data.split.train=0.6 data.split.test=0.3" : "");
}
