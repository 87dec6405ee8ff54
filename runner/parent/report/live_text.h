#pragma once

#include <ostream>
#include <string>

namespace runner {

/// Some lines at the bottom of a terminal that are drawn over each other. It never hides the cursor, and what was drawn
/// last stays when it ends.
class LiveText {
 public:
  explicit LiveText(std::ostream& out) : out_(out) {}
  /// Shows `text`, whole lines, each cut to `width` columns, in place of what is shown.
  void draw(const std::string& text, int width);
  /// Takes it away, to write something else.
  void clear();

 private:
  std::ostream& out_;
  int lines_ = 0;  // that stand above the cursor
};

}  // namespace runner
