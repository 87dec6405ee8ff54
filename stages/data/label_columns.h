#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/data/image_list.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// The columns of a table that contain the labels of its images. An image can have any number of
/// labels.
struct LabelColumns {
  std::string column;     ///< the column with all labels; empty: one column per label
  std::string separator;  ///< between two labels in `column`
  std::vector<std::string>
      columns;  ///< columns of 1 and 0, one per label and named after it, in label order
  bool may_be_empty = false;  ///< an empty field in `column` means that the image has no labels

  /// The columns that are read.
  std::vector<std::string> titles() const { return column.empty() ? columns : std::vector{column}; }
};

/// Returns a table field in quotes, for use in messages.
std::string in_quotes(std::string_view text);
/// Returns `field` without surrounding spaces.
std::string_view without_spaces(std::string_view field);

/// Reads the `target` option of a table: a column or a list of columns; empty if it is null.
std::vector<std::string> read_target_columns(runner::ConfigReader& reader);
/// Parses a decimal number such as "-23.5" or "1e3". Returns nullopt for any other text, and if the
/// number is not finite.
std::optional<double> finite_number(std::string_view field);

/// Reads the `labels` section of a table's options.
LabelColumns read_label_columns(runner::ConfigReader& labels);

/// The labels of an image.
struct LabelsOfImage {
  std::int64_t set;     ///< index into ImageList::label_sets
  std::int64_t rarest;  ///< the image's rarest label; for an image without labels, the most
                        ///< frequent label overall
};

/// Turns `list` into a list of label sets, given the labels of each image as indices into its
/// classes. Returns the images' labels in the same order; empty if no image has any labels.
std::vector<LabelsOfImage> add_label_sets(ImageList& list,
                                          std::vector<std::vector<std::int64_t>> images);

/// Collects the labels of a table's rows, one row at a time, and numbers them.
class LabelRows {
 public:
  explicit LabelRows(LabelColumns columns);

  /// Adds a row, given its fields in the order of LabelColumns::titles(). If they are invalid,
  /// leaves the row out and returns the reason, such as "its label 'red' occurs twice"; otherwise
  /// returns "".
  std::string add(const std::vector<std::string>& fields);

  /// Sets the classes and label sets of `list`. Returns the labels of each row; empty if no row has
  /// any labels.
  std::vector<LabelsOfImage> number(ImageList& list) const;

 private:
  std::string add_listed(const std::string& field, std::vector<std::int64_t>& row);
  std::string add_marked(const std::vector<std::string>& fields, std::vector<std::int64_t>& row);

  const LabelColumns columns_;
  std::vector<std::string> names_;               // in order of first appearance
  std::map<std::string, std::int64_t> known_;    // indices into names_, by compared_name()
  std::vector<std::vector<std::int64_t>> rows_;  // indices into names_
};

/// Converts the label sets of `list` to indices into `classes`. Returns, for each label set,
/// whether `classes` contains all its labels; the other sets become empty.
std::vector<bool> relabel(ImageList& list, const std::vector<std::string>& classes);

}  // namespace stages
