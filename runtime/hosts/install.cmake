# What `cmake --install` puts where: libraries, headers, and how other projects find them.
#
# In:   the targets of CMakeLists.txt.
# Out:  lib/libloadstone.{so,a}, include/loadstone/, lib/cmake/loadstone/, lib/pkgconfig/loadstone.pc.
# Next: find_package(loadstone), pkg-config --cflags --libs loadstone: docs/c-projects.md.
# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)
set(LOADSTONE_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/loadstone)

set_target_properties(loadstone_static PROPERTIES EXCLUDE_FROM_ALL FALSE)
install(TARGETS loadstone loadstone_static EXPORT loadstone
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
list(FILTER API_HEADERS EXCLUDE REGEX "lds_(api|packets)") # for cffi, and private
install(TARGETS ${PLUGINS} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${API_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/loadstone)
install(EXPORT loadstone NAMESPACE loadstone:: FILE loadstone-targets.cmake DESTINATION ${LOADSTONE_CMAKE})

file(WRITE ${CMAKE_BINARY_DIR}/loadstone-config.cmake
     "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\ninclude(\${CMAKE_CURRENT_LIST_DIR}/loadstone-targets.cmake)\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/loadstone-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/loadstone-config.cmake ${CMAKE_BINARY_DIR}/loadstone-config-version.cmake
        DESTINATION ${LOADSTONE_CMAKE})

# Relative to the file itself, so that an installed tree can be moved.
file(RELATIVE_PATH LOADSTONE_UP ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/loadstone.pc.in ${CMAKE_BINARY_DIR}/loadstone.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/loadstone.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
