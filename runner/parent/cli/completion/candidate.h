#pragma once

#include <string>
#include <vector>

namespace runner {

/// A word that may stand in place of the one being typed. One that ends in '=', '.', '/' or ',' is to be continued.
struct Candidate {
  std::string text;
  std::string description = {};  ///< a few words beside it; may be empty

  auto operator<=>(const Candidate&) const = default;
};

using Candidates = std::vector<Candidate>;

}  // namespace runner
