#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/text/expression.h"

namespace stages {

/// Whose picture a file is, by its name.
struct PictureOwner {
  /// What belongs together: pictures of the same patient or, where the name tells none, copies of the same picture.
  /// Never empty.
  std::string name;
  bool is_patient = false;  ///< the name tells the patient

  bool operator==(const PictureOwner&) const = default;
};

/// Reads from the names of photographs of the retina which of them belong together:
///
///   PatientNames().of("17_left-600-FA.jpg")      the patient 17
///   PatientNames().of("0a1b2c3d4e5f_rot90.png")  no patient, a copy of 0a1b2c3d4e5f
///
/// Patients are known by what stands before an eye, as EyePACS, ODIR and DeepDRiD write it: 17_left, 17_OD, 17_l1; a
/// number must be in it. Pictures of APTOS, IDRiD, DDR and Messidor are known by their own numbers. Of other names what
/// tools that augment data sets add is taken away: 12_flip, 12_aug3, rot90_12. It is for one thread.
class PatientNames {
 public:
  /// `pattern`: a regular expression of which the group "patient", or else the first, is the patient in the names that
  /// it matches somewhere. Names are without folder and ending. Throws std::invalid_argument saying what is wrong with
  /// it.
  explicit PatientNames(const std::optional<std::string>& pattern = {});

  bool has_pattern() const { return pattern_.has_value(); }

  /// `file`: without its folder; with or without an ending. Throws runner::StageError where the pattern takes too long.
  PictureOwner of(std::string_view file) const;

 private:
  std::optional<Expression> pattern_;
  std::vector<Expression> wrappers_, prefixes_, eyes_, pictures_, suffixes_;
};

}  // namespace stages
