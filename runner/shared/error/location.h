#pragma once

#include <deque>
#include <string>

namespace runner {

/// A text the user wrote: a recipe file or one command-line override.
struct SourceText {
  std::string name;  ///< as shown in messages: "recipes/classify.yaml" or "override 2"
  std::string contents;
};

/// A place in a SourceText. Lines and columns are 1-based; columns count bytes.
struct Location {
  const SourceText* source = nullptr;  ///< null: the place is not known
  int line = 0;
  int column = 0;
};

/// Owns every text of one invocation. Must outlive all Locations and Values made from them.
class Sources {
 public:
  const SourceText& add(std::string name, std::string contents) {
    return texts_.emplace_back(SourceText{std::move(name), std::move(contents)});
  }
  const std::deque<SourceText>& all() const { return texts_; }

 private:
  std::deque<SourceText> texts_;  // a deque: addresses stay put
};

}  // namespace runner
