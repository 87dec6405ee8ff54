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

/// What a recipe says of data sets that Python makes.
struct PythonDataOptions {
  std::string stage;                                ///< the place in the recipe, "/data"
  std::string entry;                                ///< what makes a data set, "my_data.py:make"
  std::optional<std::vector<std::string>> tensors;  ///< the values that are used; nullopt: all
  std::optional<std::vector<std::string>> classes;  ///< nullopt: those that the data set names
  bool is_augmented = true;    ///< training samples are drawn anew in every epoch
  bool skips_corrupt = false;  ///< samples that raise, or are not as the first, are left out
  std::optional<std::chrono::seconds> limit;  ///< for a sample; nullopt: none
  LoaderOptions loader;
};

/// The processes that read the samples of one stage's data sets, as many as threads ask for samples
/// at a time: its loader's workers, at least one. Each makes a data set when it first reads from
/// it. Thread-safe.
class ReaderPool {
 public:
  /// `allowed` says which files may run (retort_host/entries.py). A data set is made with a
  /// function of `seed` as the seed of all random numbers.
  ReaderPool(PythonDataOptions options, ReaderProgram program, nlohmann::ordered_json allowed,
             std::uint64_t seed);
  ~ReaderPool();

  /// What a data set says of itself, and its first sample.
  struct Known {
    DatasetDescription description;
    std::vector<std::int64_t> labels;  ///< of all samples; empty: it does not say
    bool is_steady = true;             ///< the first sample is the same when it is read again
  };
  /// The number of the data set that Python makes with these keyword arguments; the same ones are
  /// made once. `name` stands for it in messages; empty: it is the only one. Throws
  /// runner::StageError. Not while samples are read.
  std::size_t open(const nlohmann::ordered_json& arguments, const std::string& name);
  const Known& known(std::size_t set) const;

  /// A sample, as a function of `seed`. Throws runner::StageError, or returns nullopt if such
  /// samples are skipped.
  std::optional<NamedTensors> read(std::size_t set, std::int64_t index, std::uint64_t seed);
  /// "sample 17", "sample 17 of test".
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
