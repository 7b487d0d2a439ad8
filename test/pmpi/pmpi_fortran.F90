! SPDX-License-Identifier: BSD-3-Clause
! Device buffers from Fortran, point to point and where they are refused: by `use mpi_f08` (-DF08), mpif.h (-DMPIF) or `use mpi`. Memory is that of test/fake_device.
! TAP, by rank 0.
module device
  use iso_c_binding
  implicit none
  interface
    function fake_device_alloc(ordinal, bytes) bind(C)
      import
      integer(c_int), value :: ordinal
      integer(c_size_t), value :: bytes
      type(c_ptr) :: fake_device_alloc
    end function
    subroutine fake_device_copy(to, from, bytes) bind(C)
      import
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
    end subroutine
  end interface
end module

program main
  use device
#ifdef F08
  use mpi_f08
#elif !defined MPIF
  use mpi
#endif
  implicit none
#ifdef MPIF
  include 'mpif.h'
#endif
  integer, parameter :: n = 1000
  integer(c_size_t), parameter :: bytes = 4 * n
  integer :: rank, size, right, left, ierr, i, index, number, counted
  integer, target :: host(n)
  integer, allocatable, target :: got(:) ! thus aligned to 16 bytes: over UCX 1.13 MPICH 4.0.2 takes a window's address rounded down to that, without the door too
  integer, pointer :: in(:), out(:)
  type(c_ptr) :: in_device, out_device
  logical :: flag, failed
#ifdef F08
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2)
  type(MPI_Datatype) :: pairs
  type(MPI_Win) :: window
  type(MPI_File) :: file
#else
  integer :: status(MPI_STATUS_SIZE), requests(2), pairs, window, file
#endif
  integer(MPI_ADDRESS_KIND), parameter :: at = 0
  integer(MPI_OFFSET_KIND), parameter :: front = 0
  character(1000) :: folder
  allocate (got(n))
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  in_device = fake_device_alloc(0, bytes)
  out_device = fake_device_alloc(1, bytes)
  call c_f_pointer(in_device, in, [n])
  call c_f_pointer(out_device, out, [n])
  number = 0
  failed = .false.

  call fill(1)
  call MPI_Sendrecv(in, n, MPI_INTEGER, right, 1, out, n, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status, ierr)
  call MPI_Get_count(status, MPI_INTEGER, counted, ierr)
  call check('MPI_Sendrecv', 1, counted == n)

  call fill(2)
  call MPI_Irecv(out, n, MPI_INTEGER, left, 2, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Isend(in, n, MPI_INTEGER, right, 2, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call check('MPI_Isend, MPI_Irecv, MPI_Waitall', 2, .true.)

  call fill(3)
  call MPI_Irecv(out, n, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Send(in, n, MPI_INTEGER, right, 3, MPI_COMM_WORLD, ierr)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(requests(1), flag, status, ierr)
  end do
  call check('MPI_Send, MPI_Test', 3, requests(1) == MPI_REQUEST_NULL)

  call MPI_Recv_init(out, n, MPI_INTEGER, left, 4, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Send_init(in, n, MPI_INTEGER, right, 4, MPI_COMM_WORLD, requests(2), ierr)
  do i = 4, 5
    call fill(i)
    call MPI_Startall(2, requests, ierr)
    call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, ierr)
    flag = index >= 0 .and. index <= 2 ! mpi_f08 of MPICH 4.0.2 counts from 0
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
    call check('persistent requests, MPI_Waitany', i, flag)
  end do
  call MPI_Request_free(requests(1), ierr)
  call MPI_Request_free(requests(2), ierr)

  call MPI_Type_vector(n / 2, 1, 2, MPI_INTEGER, pairs, ierr)
  call MPI_Type_commit(pairs, ierr)
  call fill(6)
  call MPI_Sendrecv_replace(in, 1, pairs, right, 6, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call fake_device_copy(c_loc(got), in_device, bytes)
  flag = .true.
  do i = 1, n
    flag = flag .and. got(i) == value(merge(left, rank, mod(i, 2) == 1), i, 6)
  end do
  call report('a vector, MPI_Sendrecv_replace', flag)
  call MPI_Type_free(pairs, ierr)

  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call fill(7)
  i = 0
  call MPI_Pack(in, n, MPI_INTEGER, got, int(bytes), i, MPI_COMM_WORLD, ierr)
  flag = ierr == MPI_ERR_BUFFER
  call MPI_Pack(host, n, MPI_INTEGER, out, int(bytes), i, MPI_COMM_WORLD, ierr)
  flag = flag .and. ierr == MPI_ERR_BUFFER
  call MPI_Pack(host, n, MPI_INTEGER, got, int(bytes), i, MPI_COMM_WORLD, ierr)
  call report('MPI_Pack: device memory is refused, host memory is not', flag .and. ierr == MPI_SUCCESS .and. i == bytes .and. all(got == host))

  call MPI_Win_create(got, int(bytes, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierr)
  call MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN, ierr)
  call MPI_Win_fence(0, window, ierr)
  call MPI_Put(in, n, MPI_INTEGER, right, at, n, MPI_INTEGER, window, ierr)
  flag = ierr == MPI_ERR_BUFFER
  call MPI_Put(host, n, MPI_INTEGER, right, at, n, MPI_INTEGER, window, ierr)
  flag = flag .and. ierr == MPI_SUCCESS
  call MPI_Win_fence(0, window, ierr)
  call MPI_Win_free(window, ierr)
  call MPI_Win_create(out, int(bytes, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierr)
  flag = flag .and. ierr == MPI_ERR_BUFFER .and. all(got == [(value(left, i, 7), i = 1, n)])
  call report('MPI_Win_create, MPI_Put: device memory is refused, host memory is not', flag)

  call get_environment_variable('TEST_FOLDER', folder)
  write (folder, '(a,i0)') trim(folder)//'/fortran.', rank
  call MPI_File_open(MPI_COMM_SELF, trim(folder), MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, ierr)
  call MPI_File_write_at_all(file, front, in, n, MPI_INTEGER, status, ierr)
  flag = ierr == MPI_ERR_BUFFER
  call MPI_File_write_at_all(file, front, host, n, MPI_INTEGER, status, ierr)
  call MPI_File_read(file, out, n, MPI_INTEGER, status, ierr)
  flag = flag .and. ierr == MPI_ERR_BUFFER
  got = 0
  call MPI_File_read(file, got, n, MPI_INTEGER, status, ierr)
  call MPI_File_close(file, ierr)
  call report('files: device memory is refused, host memory is not', flag .and. all(got == host))

  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  flag = is_refused(MPI_ERR_COUNT, bcast(-1, 0)) .and. is_refused(MPI_ERR_ROOT, bcast(n, size)) .and. &
         is_refused(MPI_ERR_COUNT, gatherv([n, -1])) .and. bcast(n, 0) == MPI_SUCCESS .and. gatherv([n, n]) == MPI_SUCCESS
  call report('collectives: MPI refuses a negative count and a wrong root, and its communicator goes on', flag)

  if (rank == 0) print '(a,i0)', '1..', number
  call MPI_Finalize(ierr)
  if (failed) error stop 1

contains
  integer function value(of, i, turn)
    integer, intent(in) :: of, i, turn
    value = of * 1000000 + turn * 10000 + i
  end function

  logical function is_refused(class, error)
    integer, intent(in) :: class, error
    integer :: found
    call MPI_Error_class(error, found, ierr)
    is_refused = found == class
  end function

  integer function bcast(count, root)
    integer, intent(in) :: count, root
    call MPI_Bcast(in, count, MPI_INTEGER, root, MPI_COMM_WORLD, bcast)
  end function

  integer function gatherv(counts) ! of two ranks; wrong counts are wrong at both
    integer, intent(in) :: counts(2)
    integer, target :: all(2 * n)
    call MPI_Gatherv(in, counts(2), MPI_INTEGER, all, counts, [0, n], MPI_INTEGER, 0, MPI_COMM_WORLD, gatherv)
  end function

  subroutine fill(turn)
    integer, intent(in) :: turn
    integer :: i
    do i = 1, n
      host(i) = value(rank, i, turn)
    end do
    call fake_device_copy(in_device, c_loc(host), bytes)
  end subroutine

  subroutine check(name, turn, is_right)
    character(*), intent(in) :: name
    integer, intent(in) :: turn
    logical, intent(in) :: is_right
    integer :: i
    logical :: ok
    call fake_device_copy(c_loc(got), out_device, bytes)
    ok = is_right
    do i = 1, n
      ok = ok .and. got(i) == value(left, i, turn)
    end do
    call report(name, ok)
  end subroutine

  subroutine report(name, is_right)
    character(*), intent(in) :: name
    logical, intent(in) :: is_right
    logical :: all
    call MPI_Allreduce(is_right, all, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
    number = number + 1
    failed = failed .or. .not. all
    if (rank == 0) print '(a,i0,a)', merge('ok     ', 'not ok ', all), number, ' - ' // name
  end subroutine
end program
