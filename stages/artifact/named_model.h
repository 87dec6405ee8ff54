#pragma once

#include <string>

namespace stages {

/// A model whose architecture has a name by which people tell it from others: "densenet121". It is
/// one Model beside that.
class NamedModel {
 public:
  virtual ~NamedModel() = default;
  virtual std::string architecture() const = 0;
};

}  // namespace stages
