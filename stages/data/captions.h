#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/config_reader.h"

namespace stages {

/// The facts about images that captions can use.
struct ImageFacts {
  std::vector<std::string> fields;  ///< "make", "model"
  std::vector<std::vector<std::string>>
      rows;  ///< each has a text for every field; ImageFile::facts gives the row of an image
};

/// A caption template: "a photo of a {make} {model} car" has two fields. "{{" and "}}" are escaped
/// braces.
class CaptionTemplate {
 public:
  /// Throws std::invalid_argument with the fault in the braces, in half a sentence.
  explicit CaptionTemplate(std::string_view text);

  const std::string& text() const { return text_; }
  /// In text order; a field that occurs twice is listed twice.
  const std::vector<std::string>& fields() const { return fields_; }
  /// `values`: the value of each of fields().
  std::string filled(std::span<const std::string_view> values) const;

 private:
  std::string text_;
  std::vector<std::string> literals_,
      fields_;  // a literal before each field, and one after the last
};

/// The captions of the images of a list.
struct Captions {
  std::vector<std::string> texts;  ///< all distinct captions that occur; UTF-8 without control
                                   ///< characters
  std::vector<std::vector<std::int64_t>>
      of;  ///< for each row of facts, the caption by each template: an index into `texts`
};

/// Fills `templates` from `facts`, which have all the fields that the templates name. The texts are
/// in the order of the templates and, for each, of the rows.
Captions compose_captions(std::span<const CaptionTemplate> templates, const ImageFacts& facts);

/// Reads the option `caption`: no template, one, or several. Malformed braces are an error of
/// `reader`.
std::vector<CaptionTemplate> read_captions(runner::ConfigReader& reader);

/// The same if the fields are known: unknown ones are errors of `reader` too.
std::vector<CaptionTemplate> read_captions(runner::ConfigReader& reader,
                                           const std::vector<std::string>& fields);

/// An error at "/caption" for each template that names a field not among `fields`.
runner::Diagnostics unknown_fields(std::span<const CaptionTemplate> templates,
                                   std::span<const std::string> fields);

}  // namespace stages
