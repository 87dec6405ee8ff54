#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/torch_python.h"

/// A small backbone: its options, and the library for which it is exported.
struct Backbone {
  std::string name, library, options;
};

inline void PrintTo(const Backbone& backbone, std::ostream* out) { *out << backbone.name; }

inline const std::string kShape =
    "model.backbone.hidden_size=48 model.backbone.intermediate_size=96 "
    "model.backbone.num_hidden_layers=2 model.backbone.num_attention_heads=4 "
    "model.backbone.patch_size=8 model.backbone.weights=null ";
inline const Backbone kClip = {"clip", "clip", "model/backbone=tiny " + kShape};
inline const Backbone kVit = {"vit", "vit", "model/backbone=vit_b16_hf " + kShape};
inline const Backbone kTimm = {"timm", "timm", "model/backbone=vit_b16_timm " + kShape};
inline const Backbone kDinov2 = {
    "dinov2", "dinov2", "model/backbone=dinov2_vits14 model.backbone.image_size=auto " + kShape};
inline const Backbone kDinov2Registers = {"dinov2_registers", "dinov2",
                                          kDinov2.options + "model.backbone.register_tokens=3 "};
inline const Backbone kDinov2OfTimm = {"dinov2_of_timm", "timm",
                                       kDinov2Registers.options + "model.backbone.names=timm "};

class Export : public testing::TestWithParam<Backbone> {
 protected:
  void SetUp() override {
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 8 --size 40 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
  }
  Ended train(const Backbone& backbone, const std::string& model, const std::string& more,
              const std::string& name) {
    return retort(
        "run finetune data=image_folder data.root=photos data.image_size=32 "
        "data.augment.random_resized_crop=null data.augment.horizontal_flip=0 "
        "data.loader.workers=0 epochs=3 batch_size=8 "
        "train.gradient_accumulation_steps=1 lr=0.02 model=" +
            model + " " + backbone.options + more + " run.dir=" + name + " -q",
        folder_.path());
  }
  Ended exported(const std::string& run, const std::string& flags, const std::string& out) {
    return retort("export " + run + " " + flags + " --out " + out, folder_.path());
  }
  /// The predictions of `retort predict` for three images: a row of probabilities per image, in the
  /// order of the classes.
  nlohmann::json predicted(const std::string& run) {
    const Ended ended = retort("predict " + run + " --json --top 3 " + images(), folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    std::istringstream lines(ended.out);
    nlohmann::json rows = nlohmann::json::array();
    for (std::string line; std::getline(lines, line);) {
      std::map<std::string, double> by_class;
      const nlohmann::json prediction = nlohmann::json::parse(line);
      if (prediction.contains("schema")) break;
      for (const nlohmann::json& item : prediction["classes"])
        by_class[item["class"]] = item["probability"];
      nlohmann::json row = nlohmann::json::array();
      for (const auto& [name, probability] : by_class) row.push_back(probability);
      rows.push_back(row);
    }
    return rows;
  }
  std::string images() const {
    std::string list;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "photos")) {
      if (entry.is_directory())
        list += "photos/" + entry.path().filename().string() + "/00000.jpg ";
    }
    return list;
  }
  nlohmann::json parsed(const std::string& file) const {
    return nlohmann::json::parse(file_text(folder_ / file));
  }
  /// The tensors of a safetensors file: name → "F32 [8, 48]".
  std::map<std::string, std::string> tensors(const std::string& file) const {
    std::ifstream stream(folder_ / file, std::ios::binary);
    std::uint64_t size = 0;
    stream.read(reinterpret_cast<char*>(&size), sizeof size);
    std::string header(size, '\0');
    stream.read(header.data(), static_cast<std::streamsize>(size));
    std::map<std::string, std::string> result;
    const nlohmann::json described = nlohmann::json::parse(header);
    for (const auto& [name, tensor] : described.items()) {
      if (name != "__metadata__")
        result[name] = tensor["dtype"].get<std::string>() + " " + tensor["shape"].dump();
    }
    return result;
  }
  TemporaryFolder folder_;
};

inline Ended other_libraries(const std::string& arguments, const std::filesystem::path& folder) {
  return run_shell(torch_python()->string() +
                       " " RETORT_SOURCE_DIR "/tests/end_to_end/other_libraries.py " + arguments,
                   folder);
}

/// Compares exports with the libraries that they are written for.
class DeepExport : public Export {
 protected:
  /// Exports `run` and compares the predictions of the program in the README with those of `retort
  /// predict`.
  void expect_the_same_predictions(const std::string& run, const std::string& flags) {
    const Ended ended = retort("export " + run + " --json " + flags, folder_.path());
    ASSERT_EQ(ended.exit, 0) << run << ' ' << flags << ended.out << ended.err;
    const std::string folder = nlohmann::json::parse(ended.out)["result"]["folder"];
    const Ended program = other_libraries("predict " + folder + " " + images(), folder_.path());
    ASSERT_EQ(program.exit, 0) << run << flags << program.err;
    const nlohmann::json theirs =
                             nlohmann::json::parse(program.out.substr(program.out.rfind("[["))),
                         ours = predicted(run);
    ASSERT_EQ(theirs.size(), ours.size());
    for (std::size_t row = 0; row < ours.size(); ++row) {
      for (std::size_t label = 0; label < 3; ++label) {
        EXPECT_NEAR(theirs[row][label], ours[row][label], 1e-5) << run << flags << row << label;
      }
    }
  }
};
