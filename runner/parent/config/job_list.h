#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/config/config_files.h"
#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// How the runs of a sweep are chosen from the values of its keys.
struct JobChoice {
  std::uint64_t seed = 0;  ///< of what is shuffled and drawn
  std::optional<std::uint64_t>
      samples;  ///< as many combinations are drawn, at least 1; nullopt: all of them
};

/// The runs of a sweep: every combination of the values of its dimensions, the last dimension
/// varying fastest, numbered from 0. A dimension is a key with its values, in the order in which
/// keys first appear; a key with one value is a dimension too.
///
/// Of a sweep that draws samples all keys with several values are one dimension, at the place of
/// the first of them: each run of it takes of every one a value, no combination twice. Only `seed`
/// stays a dimension of its own, so that each sample is run with each seed. The first samples are
/// the same however many there are.
class JobList {
 public:
  static constexpr std::uint64_t kMaxJobs = 10'000;

  /// The options of a group that glob() chooses from are those of `configs`; what is shuffled
  /// follows from `seed`. Of a key that is given twice the last value counts, at the first one's
  /// place; where one of the two is a sweep that is an error, and so are a sweep without values,
  /// interval() where nothing is drawn, more samples than combinations, a sweep of Hydra's own
  /// settings, and more than kMaxJobs runs.
  static Result<JobList> make(std::span<const Override> overrides, const ConfigFiles& configs,
                              const JobChoice& choice);

  std::uint64_t size() const;
  /// What run `number`, below size(), sets. None of it is a sweep.
  std::vector<Override> operator[](std::uint64_t number) const;

 private:
  struct Dimension {
    std::vector<std::vector<Override>> values;  // what each sets; of a drawn one, in each sample
    bool is_sweep;
    Location where;
    std::optional<Override> interval = {};  // to be drawn from
    bool is_drawn = false;
  };

  /// Of the dimensions that are drawn, their values in each sample.
  Diagnostics draw(std::uint64_t seed, std::uint64_t samples);

  std::vector<Dimension> dimensions_;
};

/// Does all of `name` match `pattern`, as Python's fnmatchcase() says? Both are UTF-8, of which a
/// character that is no such counts as its bytes.
///
///   *   any characters     ?   one character     [a-z_]   one of these     [!a-z_]   one that is
///   none of these
///
/// Everything else is itself, and so is a '[' that no ']' closes. Takes at worst time in proportion
/// to the product of their lengths.
bool matches_wildcard(std::string_view name, std::string_view pattern);

}  // namespace runner
