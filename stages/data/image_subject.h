#pragma once

#include <string_view>

#include "stages/data/image.h"

namespace stages {

/// What all images of a data set are to show, where their pixels tell. A kind of data brings one; stages.cpp lists all.
struct ImageSubject {
  std::string_view name;              ///< in records: "retina"
  std::string_view what;              ///< "a photograph of a retina"
  bool (*looks_alike)(const Image&);  ///< does an image look like one, at a glance; thread-safe
  bool has_patients = false;          ///< the names of files are to tell the patient
};

}  // namespace stages
