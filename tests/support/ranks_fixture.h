#pragma once

#include <sys/types.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

/// Trains a small classifier with several ranks.
class Ranks : public testing::Test {
 protected:
  /// How much a float32 sum of a few thousand terms may change when they are added in another
  /// order, with a margin for the layers that it passes through.
  static constexpr double kFloatBits = 6e-8, kReordered = 4096 * kFloatBits;

  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 2 --per-class 10 --size 24 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  /// Trains for two epochs of two steps each, the second step with an uneven batch, and saves after
  /// each step.
  Ended train(const std::string& name, int ranks, const std::string& more = "",
              const std::string& fault = "") {
    return with_fault(fault,
                      "run quickstart data.root=photos data.make=null "
                      "data.image_size=16 model.patch_size=8 model.num_hidden_layers=1 "
                      "train.epochs=2 train.batch_size=9 train.checkpoint.every.steps=1 "
                      "train.log_every=1 device=cpu device.count=" +
                          std::to_string(ranks) + " run.dir=" + name + ' ' + more);
  }
  /// Runs `retort`, in which the process named by `fault` fails.
  Ended with_fault(const std::string& fault, const std::string& arguments) {
    const std::string variable = fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ';
    return run_shell(variable + RETORT_BINARY_DIR "/bin/retort " + arguments, folder_.path());
  }
  /// A training run that continues until it is stopped.
  struct Endless {
    std::future<Ended> ended;
    pid_t retort;  ///< its process
  };
  /// Starts an endless training run and waits for its first metrics.
  Endless start_endless(const std::string& name, int ranks, const std::string& more) {
    auto ended = std::async(std::launch::async, [=, this] {
      return train(name, ranks,
                   "train.epochs=100000 " + more + " & echo $! >" + name + ".pid; wait $!");
    });
    const std::filesystem::path metrics = folder_ / (name + "/metrics.jsonl");
    for (int i = 0; i < 3000 &&
                    (!std::filesystem::exists(metrics) || std::filesystem::file_size(metrics) == 0);
         ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return {std::move(ended), std::stoi(file_text(folder_ / (name + ".pid")))};
  }
  /// Waits until a training run has saved its first checkpoint.
  void wait_for_checkpoint(const std::string& name) const {
    for (int i = 0; i < 3000 && latest_checkpoint(folder_ / name).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::string weights(const std::string& name) const { return latest_weights(folder_ / name); }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(file_text(folder_ / (name + "/summary.json")));
  }
  /// The values of a metric in recording order.
  std::vector<double> values(const std::string& name, const std::string& metric) const {
    std::vector<double> all;
    std::istringstream lines(file_text(folder_ / (name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json one = nlohmann::json::parse(line);
      if (one.at("name") == metric) all.push_back(one.at("value"));
    }
    return all;
  }
  /// Compares sums of the same terms in a different order.
  static void expect_reordered(const std::vector<double>& found,
                               const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_FALSE(expected.empty());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], kReordered * std::abs(expected[i])) << i;
  }

  SharedFolder folder_;
};
