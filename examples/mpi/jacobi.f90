! SPDX-License-Identifier: BSD-3-Clause
! jacobi.c in Fortran, with the same residual: the columns of the square are dealt to MPI ranks.
!     mpifort -O2 -fopenmp jacobi.f90 -o jacobi          a compiler that offloads (nvfortran -mp=gpu); else all is host memory
!     mpirun -n 4 corale-run --mpi ./jacobi 1000
module square
  use iso_c_binding
  use mpi_f08
  use omp_lib
  implicit none
  integer, parameter :: width = 512

contains
  function device_array(rows, columns) result(array)
    integer, intent(in) :: rows, columns
    double precision, pointer, contiguous :: array(:, :)
    type(c_ptr) :: memory
    memory = omp_target_alloc(8_c_size_t * rows * columns, omp_get_default_device())
    if (.not. c_associated(memory)) call MPI_Abort(MPI_COMM_WORLD, 1)
    call c_f_pointer(memory, array, [rows, columns])
    call fill(array, rows * columns, 0d0)
  end function

  subroutine fill(array, n, value)
    integer, intent(in) :: n
    double precision, intent(inout) :: array(n)
    double precision, intent(in) :: value
    integer :: i
    !$omp target teams distribute parallel do is_device_ptr(array)
    do i = 1, n
      array(i) = value
    end do
  end subroutine

  subroutine step(from, to, columns, residual)
    integer, intent(in) :: columns
    double precision, intent(in) :: from(width, 0:columns + 1)
    double precision, intent(inout) :: to(width, 0:columns + 1), residual(1)
    double precision :: mean, total
    integer :: x, y
    total = 0
    !$omp target teams distribute parallel do collapse(2) private(mean) reduction(+: total) is_device_ptr(from, to)
    do y = 1, columns
      do x = 2, width - 1
        mean = 0.25d0 * (from(x - 1, y) + from(x + 1, y) + from(x, y - 1) + from(x, y + 1))
        to(x, y) = mean
        total = total + (mean - from(x, y))**2
      end do
    end do
    !$omp target is_device_ptr(residual)
    residual(1) = total
    !$omp end target
  end subroutine

  subroutine exchange(grid, columns, left, right)
    integer, intent(in) :: columns, left, right
    double precision, intent(inout) :: grid(width, 0:columns + 1)
    call MPI_Sendrecv(grid(:, 1), width, MPI_DOUBLE_PRECISION, left, 0, grid(:, columns + 1), width, &
                      MPI_DOUBLE_PRECISION, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(grid(:, columns), width, MPI_DOUBLE_PRECISION, right, 1, grid(:, 0), width, &
                      MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine
end module

program jacobi
  use square
  implicit none
  double precision, pointer, contiguous :: from(:, :), to(:, :), next(:, :), residual(:, :)
  double precision, target :: total
  character(16) :: word
  integer :: rank, ranks, steps, columns, left, right, i
  call get_command_argument(1, word)
  if (word == '--help' .or. word == '--version') then
    print '(a)', merge('usage: mpirun -n RANKS jacobi [steps]    (default: 200)', &
                       'jacobi, an example of Corale''s for MPI alone           ', word == '--help')
    stop
  end if
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  steps = 200
  if (word /= '') read (word, *) steps
  columns = (width - 2) / ranks + merge(1, 0, rank < mod(width - 2, ranks))
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
  from => device_array(width, columns + 2)
  to => device_array(width, columns + 2)
  residual => device_array(1, 1)
  if (rank == 0) then ! the square's first column is 1, its other sides are 0
    call fill(from, width, 1d0)
    call fill(to, width, 1d0)
  end if
  do i = 1, steps
    call exchange(from, columns, left, right)
    call step(from, to, columns, residual)
    call MPI_Allreduce(MPI_IN_PLACE, residual, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    next => from
    from => to
    to => next
  end do
  i = omp_target_memcpy(c_loc(total), c_loc(residual), c_sizeof(total), 0_c_size_t, 0_c_size_t, &
                        omp_get_initial_device(), omp_get_default_device())
  if (rank == 0) print '(i0,a,i0,a,f11.9)', ranks, ' ranks, ', steps, ' steps: residual ', sqrt(total)
  call omp_target_free(c_loc(from), omp_get_default_device())
  call omp_target_free(c_loc(to), omp_get_default_device())
  call omp_target_free(c_loc(residual), omp_get_default_device())
  call MPI_Finalize()
end program
