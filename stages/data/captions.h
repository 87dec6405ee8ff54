#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/config_reader.h"

namespace stages {

/// What captions can say of images.
struct ImageFacts {
  std::vector<std::string> fields;  ///< "make", "model"
  std::vector<std::vector<std::string>>
      rows;  ///< each a text for every field; of an image, ImageFile::facts says which
};

/// How an image is described: "a photo of a {make} {model} car" has two fields. "{{" and "}}" stand
/// for braces.
class CaptionTemplate {
 public:
  /// Throws std::invalid_argument saying what is wrong with the braces, in half a sentence.
  explicit CaptionTemplate(std::string_view text);

  const std::string& text() const { return text_; }
  /// In the order of the text; one that comes twice is there twice.
  const std::vector<std::string>& fields() const { return fields_; }
  /// `values`: what each of fields() is.
  std::string filled(std::span<const std::string_view> values) const;

 private:
  std::string text_;
  std::vector<std::string> literals_,
      fields_;  // a literal before each field, and one after the last
};

/// The captions of the images of a list.
struct Captions {
  std::vector<std::string> texts;  ///< all that occur, none twice; UTF-8 without control characters
  std::vector<std::vector<std::int64_t>>
      of;  ///< of each row of facts, the caption by each template: a position there
};

/// What `templates` make of `facts`, which have all the fields that they name. The texts are in the
/// order of the templates, and of the rows for each.
Captions compose_captions(std::span<const CaptionTemplate> templates, const ImageFacts& facts);

/// Reads the option `caption`: no template, one, or several. What is wrong with their braces is an
/// error of `reader`.
std::vector<CaptionTemplate> read_captions(runner::ConfigReader& reader);

/// The same where it is known which fields there are: others are errors of `reader` too.
std::vector<CaptionTemplate> read_captions(runner::ConfigReader& reader,
                                           const std::vector<std::string>& fields);

/// An error for each template that names fields which are not among `fields`, at "/caption".
runner::Diagnostics unknown_fields(std::span<const CaptionTemplate> templates,
                                   std::span<const std::string> fields);

}  // namespace stages
