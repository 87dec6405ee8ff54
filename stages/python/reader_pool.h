#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/artifact/dataset.h"
#include "stages/python/reader_process.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// A recipe's options for datasets created by Python.
struct PythonDataOptions {
  std::string stage;  ///< location in the recipe, "/data"
  std::string entry;  ///< the code that creates a dataset, "my_data.py:make"
  std::optional<std::vector<std::string>> tensors;  ///< the values that are used; nullopt: all
  std::optional<std::vector<std::string>> classes;  ///< nullopt: the names in the dataset
  /// The attribute or column with the group of each sample; nullopt: there are no groups.
  std::optional<std::string> group;
  bool is_augmented = true;    ///< training samples may differ from epoch to epoch
  bool skips_corrupt = false;  ///< samples that fail or differ from the first are omitted
  std::optional<std::chrono::seconds> limit;  ///< time limit for a sample; nullopt: none
  LoaderOptions loader;
};

/// The processes that read the samples of one stage's datasets. There is one for each thread that
/// may request samples at the same time: as many as loader workers, but at least one. Each process
/// creates a dataset when it first reads from it. Thread-safe.
class ReaderPool {
 public:
  /// `allowed` lists the files that may run (retort_host/entries.py). A value derived from `seed`
  /// seeds all random number generators when a dataset is created.
  ReaderPool(PythonDataOptions options, ReaderProgram program, nlohmann::ordered_json allowed,
             std::uint64_t seed);
  ~ReaderPool();

  /// What a dataset reports about itself and its first sample.
  struct Known {
    DatasetDescription description;
    std::vector<std::int64_t> labels;  ///< labels of all samples; empty if unknown
    std::vector<std::string> groups;   ///< groups of all samples; empty if there are none
    bool is_steady = true;             ///< the first sample is the same when read again
  };
  /// Returns the number of the dataset that Python creates with these keyword arguments; the same
  /// arguments always give the same number. `name` identifies the dataset in messages; empty if it
  /// is the only one. Must not be called while samples are being read. Throws runner::StageError.
  std::size_t open(const nlohmann::ordered_json& arguments, const std::string& name);
  const Known& known(std::size_t set) const;

  /// Reads a sample with the given `seed`. If the sample is bad, throws runner::StageError, or
  /// returns nullopt if such samples are skipped.
  std::optional<NamedTensors> read(std::size_t set, std::int64_t index, std::uint64_t seed);
  /// Returns "sample 17", or "sample 17 of test" if the dataset has a name.
  std::string sample_name(std::size_t set, std::int64_t index) const;

  const PythonDataOptions& options() const { return options_; }
  std::uint64_t seed() const { return seed_; }

 private:
  struct Set;
  struct Reader;
  class Lent;

  std::unique_ptr<Reader> take();
  void take_back(std::unique_ptr<Reader> reader);
  nlohmann::ordered_json asked(Reader& reader, const nlohmann::ordered_json& request) const;
  nlohmann::ordered_json opening(std::size_t set) const;
  void make_known(Reader& reader, std::size_t set) const;
  runner::StageError refusal(const nlohmann::ordered_json& failure, const std::string& what) const;

  const PythonDataOptions options_;
  const ReaderProgram program_;
  const nlohmann::ordered_json allowed_;
  const std::uint64_t seed_;
  std::vector<Set> sets_;

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Reader>> idle_;
  std::int64_t lent_ = 0;
};

}  // namespace stages
